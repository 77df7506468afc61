# Serves quilt-mcp over HTTP. It runs as a user without rights, and needs to write only to /srv/data and /tmp.
FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b AS build
ARG EXTRAS=postgres,valkey
ARG SOURCE_COMMIT=
WORKDIR /srv/source
COPY pyproject.toml README.md LICENSE .ci/constraints.txt ./
COPY src ./src
RUN python -m venv /srv/quilt-mcp
RUN /srv/quilt-mcp/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
    --constraint constraints.txt ".[$EXTRAS]"
RUN mkdir /srv/data

FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
COPY --from=build /srv/quilt-mcp /srv/quilt-mcp
COPY --from=build --chown=10001:10001 /srv/data /srv/data
ENV PATH=/srv/quilt-mcp/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/srv/data \
    QUILT_MCP_DATA_DIR=/srv/data
USER 10001:10001
VOLUME /srv/data
EXPOSE 8000
# not with urllib, which would ask the proxy of HTTP_PROXY
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", "from http.client import *; c = HTTPConnection('127.0.0.1', 8000, timeout=4); c.request('GET', '/health'); exit(c.getresponse().status != 200)"]
ENTRYPOINT ["quilt-mcp"]
CMD ["serve", "--transport", "http", "--host", "0.0.0.0", "--port", "8000"]
