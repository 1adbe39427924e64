#!/usr/bin/env bash
# Removes the files that the last `make install` wrote, and the folders of weir's own.
. "$(dirname "$0")/lib.sh"
manifest=build/${WEIR_PRESET:-release}/install_manifest.txt
[ -f "$manifest" ] || fail "nothing to remove: $manifest is not there. Was it installed from here?"
while IFS= read -r file || [ -n "$file" ]; do
    rm -fv "${DESTDIR:-}$file"
done <"$manifest"
for folder in include/weir share/doc/weir; do
    rmdir "${DESTDIR:-}${PREFIX:-/usr/local}/$folder" 2>/dev/null || true
done
rm -f "$manifest"
