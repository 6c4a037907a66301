# qcalib on Debian 12: docker build -t qcalib . && docker run --rm -v "$PWD:/data" qcalib --data calib.h5 model.onnx
FROM debian:12-slim AS build
COPY . /src
WORKDIR /src
RUN scripts/setup && apt-get install -y --no-install-recommends dpkg-dev file git && scripts/package deb

FROM debian:12-slim
COPY --from=build /src/build/packages/qcalib_*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/qcalib_*.deb && \
    rm -rf /var/lib/apt/lists/* /tmp/qcalib_*.deb
WORKDIR /data
ENTRYPOINT ["qcalib"]
