# weir in a container; docs/docker.md says how to run it.
# Two stages: what serves needs no compiler. It is one program: jansson and libyaml are linked into it. Of Debian
# it uses libc, and libpq if its buckets live in PostgreSQL.
FROM debian:12-slim AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        gcc libc6-dev cmake ninja-build pkg-config libjansson-dev libyaml-dev libpq-dev
WORKDIR /src
COPY . .
RUN cmake --preset release -DCMAKE_INSTALL_PREFIX=/usr \
    && cmake --build --preset release \
    && DESTDIR=/out cmake --install build/release --strip

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends libpq5 && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10390 --no-create-home --shell /usr/sbin/nologin weir \
    && install -d -o weir -g weir -m 0700 /var/lib/weir
COPY --from=build /out/usr/bin/weir /usr/bin/weir
USER weir
# Buckets outlive the container, if a volume does.
ENV WEIR_STORE=file:/var/lib/weir/buckets?size=64M
VOLUME /var/lib/weir
EXPOSE 6390 8390

# A published port is open to whoever reaches the host, so it needs a password: weir refuses to
# listen beyond loopback without one. It is mounted as a secret, never baked into the image.
ENTRYPOINT ["/usr/bin/weir"]
CMD ["serve", "--resp", ":6390", "--http", ":8390", "--password-file", "/run/secrets/weir-password"]

# /healthz asks for no password. The image has no curl; bash can open a connection by itself.
HEALTHCHECK --interval=10s --timeout=2s --start-period=2s \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8390 && printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r line <&3 && [[ $line == *' 200 '* ]]"]
