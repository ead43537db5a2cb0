// SPDX-License-Identifier: Apache-2.0
import { isAppError } from "@patchbay/base";
import { expect, test } from "vitest";
import {
  requireKnownDevices,
  allocateDevice,
  allocateDirectories,
  listDevices,
  toOfferName,
} from "./offer.ts";

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

test("an offer is named after the last part of its resource", () => {
  expect(toOfferName(OFFER)).toBe("vhost-net");
});

test.each([
  [true, "Healthy"],
  [false, "Unhealthy"],
] as const)("if its file exists (%s), all its devices are %s", (exists, health) => {
  expect(listDevices(OFFER, exists)).toEqual([
    { ID: "vhost-net-0", health },
    { ID: "vhost-net-1", health },
  ]);
});

test("a container gets the copy of a device in the place of the device's own file", () => {
  expect(allocateDevice(OFFER)).toEqual({ devices: [DEVICE], mounts: [] });
});

test("a container gets each directory read-only, under its own path", () => {
  expect(allocateDirectories(["sockets-1", "sockets-2"])).toEqual({
    devices: [],
    mounts: ["sockets-1", "sockets-2"].map((id) => ({
      containerPath: `/run/patchbay/vhost-user/${id}`,
      hostPath: `/run/patchbay/vhost-user-shown/${id}`,
      readOnly: true,
    })),
  });
});

test.each([
  { name: "none", requested: [], unknown: undefined },
  {
    name: "an offered device",
    requested: [["vhost-net-0", "vhost-net-1"], []],
    unknown: undefined,
  },
  {
    name: "a device that is not offered",
    requested: [["vhost-net-0"], ["vhost-net-2"]],
    unknown: "vhost-net-2",
  },
])(
  "finds the device that kubelet requests and the offer lacks: $name",
  ({ requested, unknown }) => {
    const containerRequests = requested.map((devicesIds) => ({ devicesIds }));
    let found: unknown;
    try {
      requireKnownDevices(OFFER, { containerRequests });
    } catch (error) {
      found = isAppError(error, "DEVICE_UNKNOWN") ? error.details["device"] : error;
    }
    expect(found).toBe(unknown);
  },
);
