// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { createDeviceInfoFiles } from "./device-info-files.ts";

const DIR = "/run/devinfo";
const PCI = { type: "pci", version: "1.1.0", pci: { "pci-address": "0000:03:02.1" } };
const DEVICE = { resource: "vendor.io/nic", id: "0000:03:02.1" };
const ATTACHMENT = { network: "ns1/blue", containerId: "box", interfaceName: "net1" };
const OWN = `${DIR}/cni/ns1-blue-box_net1`;

let files: ReturnType<typeof createFakeFiles>;
let log: ReturnType<typeof createFakeLogger>;
let deviceInfo: ReturnType<typeof createDeviceInfoFiles>;
beforeEach(() => {
  files = createFakeFiles();
  log = createFakeLogger();
  deviceInfo = createDeviceInfoFiles({ files, log }, DIR);
});

test("an attachment's file name contains no directories", () => {
  expect(deviceInfo.pathOf(ATTACHMENT)).toBe(OWN);
});

test("copies the device plugin's file and does not remove it", async () => {
  const path = `${DIR}/dp/vendor.io-nic-0000:03:02.1-device.json`;
  await files.writeAtomic(path, JSON.stringify(PCI));
  await deviceInfo.prepare(OWN, DEVICE);
  expect(await deviceInfo.read(OWN)).toEqual(PCI);
  await deviceInfo.remove(OWN);
  expect(await deviceInfo.read(OWN)).toBeUndefined();
  expect(await files.readText(path)).toBe(JSON.stringify(PCI));
});

test("replaces slashes in the names of resource and device", async () => {
  const resource = "../../etc";
  await files.writeAtomic(`${DIR}/dp/..-..-etc-..-x-device.json`, JSON.stringify(PCI));
  await deviceInfo.prepare(OWN, { resource, id: "../x" });
  expect(await deviceInfo.read(OWN)).toEqual(PCI);
});

test.each([
  ["a plugin that says nothing", DEVICE],
  ["a device of no resource", { id: "x" }],
])("writes no file for %s", async (_name, device) => {
  await deviceInfo.prepare(OWN, device);
  expect(await files.exists(OWN)).toBe(false);
  expect(await deviceInfo.read(OWN)).toBeUndefined();
  expect(log.lines).toEqual([]);
});

describe("ignores and logs a file with content that is", () => {
  test.each([
    ["no JSON", "garbage"],
    ["no object", "[]"],
    ["no type", "{}"],
    ["too long", JSON.stringify({ ...PCI, more: "x".repeat(8192) })],
  ])("%s", async (_name, text) => {
    await files.writeAtomic(OWN, text);
    expect(await deviceInfo.read(OWN)).toBeUndefined();
    expect(log.lines).toHaveLength(1);
  });
});
