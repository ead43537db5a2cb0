// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { allocate, listDevices, nameOfOffer } from "./offer.ts";

const OFFER = {
  resource: "devices.kubevirt.io/vhost-net",
  path: "/dev/vhost-net",
  permissions: "rw",
  count: 2,
};
const DEVICE = {
  containerPath: "/dev/vhost-net",
  hostPath: "/run/patchbay/devices/vhost-net",
  permissions: "rw",
};

test("it is named after the last part of its resource", () => {
  expect(nameOfOffer(OFFER)).toBe("vhost-net");
});

test.each([
  [true, "Healthy"],
  [false, "Unhealthy"],
] as const)("with its file there %s, all are %s", (isThere, health) => {
  expect(listDevices(OFFER, isThere)).toEqual([
    { ID: "vhost-net-0", health },
    { ID: "vhost-net-1", health },
  ]);
});

test.each<{ name: string; asked: string[][]; want: object[] }>([
  { name: "nothing for nobody", asked: [], want: [] },
  { name: "the file for one", asked: [["vhost-net-0"]], want: [{ devices: [DEVICE] }] },
  {
    name: "the file once for several, and for each container",
    asked: [["vhost-net-0", "vhost-net-1"], [], ["vhost-net-1"]],
    want: [{ devices: [DEVICE] }, { devices: [] }, { devices: [DEVICE] }],
  },
])("what containers get: $name", ({ asked, want }) => {
  const request = { containerRequests: asked.map((devicesIds) => ({ devicesIds })) };
  expect(allocate(OFFER, request, true)).toEqual({ containerResponses: want });
});

test.each([
  {
    name: "one that was never offered",
    ids: ["vhost-net-0", "vhost-net-2"],
    isThere: true,
    code: "DEVICE_UNKNOWN",
  },
  { name: "one whose file is gone", ids: ["vhost-net-0"], isThere: false, code: "DEVICE_MISSING" },
])("$name is refused", ({ ids, isThere, code }) => {
  const request = { containerRequests: [{ devicesIds: ids }] };
  expect(() => allocate(OFFER, request, isThere)).toThrow(
    expect.objectContaining({ code }) as Error,
  );
});
