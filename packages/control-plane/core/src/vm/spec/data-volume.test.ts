// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { readDataVolume } from "./data-volume.ts";

const SIZE = { resources: { requests: { storage: "10Gi" } } };
const REGISTRY = { registry: { url: "docker://debian12" } };

function ordered(spec: object) {
  const read = readDataVolume(spec, "blue");
  return "order" in read ? read.order : read;
}

describe("a DataVolume", () => {
  test.each([
    {
      name: "a registry source",
      source: { registry: { url: "docker://registry:5000/os/debian:12", pullMethod: "node" } },
      want: { kind: "registry", image: "registry:5000/os/debian:12" },
    },
    {
      name: "an HTTP source",
      source: { http: { url: "https://example.org/debian.qcow2" } },
      want: { kind: "http", url: "https://example.org/debian.qcow2" },
    },
    {
      name: "a PVC source in the same namespace",
      source: { pvc: { name: "gold" } },
      want: { kind: "pvc", claimName: "gold" },
    },
    {
      name: "a PVC source with its own namespace",
      source: { pvc: { name: "gold", namespace: "blue" } },
      want: { kind: "pvc", claimName: "gold" },
    },
  ])("parses $name", ({ source, want }) => {
    expect(ordered({ source, storage: SIZE })).toEqual({
      source: want,
      size: "10Gi",
      volumeMode: "Filesystem",
      accessModes: ["ReadWriteOnce"],
    });
  });

  test("passes on the claim's fields", () => {
    const pvc = {
      accessModes: ["ReadWriteMany"],
      volumeMode: "Block",
      storageClassName: "local",
      ...SIZE,
    };
    expect(ordered({ source: REGISTRY, pvc })).toMatchObject({
      accessModes: ["ReadWriteMany"],
      volumeMode: "Block",
      storageClassName: "local",
    });
  });
});

describe("invalid fields", () => {
  test.each([
    {
      name: "no source and no size",
      spec: { storage: {} },
      fields: ["spec.source", "spec.storage.resources.requests.storage"],
    },
    {
      name: "an upload",
      spec: { source: { upload: {} }, storage: SIZE },
      fields: ["spec.source.upload"],
    },
    {
      name: "a blank disk",
      spec: { source: { blank: {} }, storage: SIZE },
      fields: ["spec.source.blank"],
    },
    {
      name: "two sources",
      spec: { source: { ...REGISTRY, http: { url: "http://a/b" } }, storage: SIZE },
      fields: ["spec.source"],
    },
    {
      name: "a URL without a scheme",
      spec: { source: { registry: { url: "debian12" } }, storage: SIZE },
      fields: ["spec.source.registry.url"],
    },
    {
      name: "secrets, which are not supported",
      spec: { source: { http: { url: "http://a/b", secretRef: "s" } }, storage: SIZE },
      fields: ["spec.source.http.secretRef"],
    },
    {
      name: "an unsupported URL scheme",
      spec: { source: { http: { url: "file:///etc/passwd" } }, storage: SIZE },
      fields: ["spec.source.http.url"],
    },
    {
      name: "a claim in another namespace",
      spec: { source: { pvc: { name: "gold", namespace: "red" } }, storage: SIZE },
      fields: ["spec.source.pvc.namespace"],
    },
    {
      name: "both pvc and storage",
      spec: { source: REGISTRY, storage: SIZE, pvc: SIZE },
      fields: ["spec"],
    },
    {
      name: "an invalid size, an invalid volume mode and an archive",
      spec: {
        source: REGISTRY,
        contentType: "archive",
        storage: { volumeMode: "File", resources: { requests: { storage: "much" } } },
      },
      fields: [
        "spec.contentType",
        "spec.storage.resources.requests.storage",
        "spec.storage.volumeMode",
      ],
    },
    {
      name: "a sourceRef",
      spec: { sourceRef: { kind: "DataSource", name: "a" }, storage: SIZE },
      fields: ["spec.sourceRef", "spec.source"],
    },
  ])("rejects $name", ({ spec, fields }) => {
    const read = readDataVolume(spec, "blue");
    expect("causes" in read ? read.causes.map(({ field }) => field) : []).toEqual(fields);
  });
});
