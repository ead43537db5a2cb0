// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { VmiSpec } from "./vmi-spec.ts";
import { withCurrentFieldNames } from "./field-aliases.ts";

const OLD = {
  domain: {
    machine: { type: "" },
    devices: {
      disks: [
        { name: "registrydisk", volumeName: "registryvolume", disk: { bus: "virtio" } },
        { name: "plain", volumeName: "" },
        { name: "new" },
      ],
      interfaces: [{ name: "default", bridge: {} }],
    },
  },
  networks: [{ name: "default", pod: {} }],
  volumes: [
    { name: "registryvolume", registryDisk: { image: "kubevirt/fedora" } },
    { name: "plain", cloudInitNoCloud: { userData: "a" } },
    { name: "new", containerDisk: { image: "debian" } },
  ],
};

test("replaces older field names with the current ones", () => {
  expect(withCurrentFieldNames(OLD)).toEqual({
    ...OLD,
    domain: {
      machine: {},
      devices: {
        disks: [
          { name: "registryvolume", disk: { bus: "virtio" } },
          { name: "plain" },
          { name: "new" },
        ],
        interfaces: [{ name: "default", bridge: {} }],
      },
    },
    volumes: [
      { name: "registryvolume", containerDisk: { image: "kubevirt/fedora" } },
      { name: "plain", cloudInitNoCloud: { userData: "a" } },
      { name: "new", containerDisk: { image: "debian" } },
    ],
  });
});

test("does not change current field names and is idempotent", () => {
  const now = withCurrentFieldNames(OLD);
  expect(withCurrentFieldNames(now)).toEqual(now);
  const bare: VmiSpec = { domain: {} };
  expect(withCurrentFieldNames(bare)).toStrictEqual(bare);
  const machine: VmiSpec = { domain: { machine: { type: "pc" } } };
  expect(withCurrentFieldNames(machine)).toStrictEqual(machine);
});

test("retains both if an object has the old and the new field", () => {
  const [older, newer] = [{ image: "a" }, { image: "b" }];
  const spec = { domain: {}, volumes: [{ name: "v", registryDisk: older, containerDisk: newer }] };
  expect(withCurrentFieldNames(spec)).toEqual(spec);
});

test("does not change values that the schema rejects", () => {
  const spec = { domain: { machine: 1, devices: { disks: "a" } }, volumes: [null, 1] };
  // A client may send anything; the mutating webhook comes before the schema.
  expect(withCurrentFieldNames(spec as unknown as VmiSpec)).toEqual(spec);
});
