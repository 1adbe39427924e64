# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Completes the command line of weir in bash. It asks weir itself for its commands and options, so it
# cannot fall behind; that takes a millisecond.

_weir()
{
    local weir=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]}
    local before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words
    if ((COMP_CWORD == 1)); then
        words=$("$weir" help 2>/dev/null | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p')
    elif [[ $command == run && " ${COMP_WORDS[*]:2:COMP_CWORD-2} " == *' -- '* ]]; then
        mapfile -t COMPREPLY < <(compgen -c -f -- "$current") # the command's own words
        return
    elif [[ $before == --password-file || $before == --svg || $before == --decisions ||
        $before == --config || $command == check-config && $current != -* ||
        $command == simulate && $current != -* && $before != --* ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
    elif [[ $before == --format ]]; then
        words='csv common combined'
    elif [[ $before == --unit ]]; then
        words='s ms us ns'
    elif [[ $before == --log ]]; then
        words='text json'
    elif [[ $before == --log-level ]]; then
        words='debug info warn error'
    elif [[ $before == --headers ]]; then
        words='draft x-ratelimit used rate-limited none'
    elif [[ $before == --protocol ]]; then
        words='resp http'
    elif [[ $before == --command ]]; then
        words='take can-take fill refund show throttle check ping'
    elif [[ $command == store && $current != -* ]]; then
        words='status resize reset init migrate prune limit'
    elif [[ $command == help ]]; then
        words=$("$weir" help 2>/dev/null | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p')
    elif [[ $current == -* ]]; then
        words=$("$weir" "$command" --help 2>/dev/null |
            sed -n 's/^ *\(-q, \|-h, \)\{0,1\}\(--[a-z][a-z-]*\).*/\2/p')
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _weir weir
