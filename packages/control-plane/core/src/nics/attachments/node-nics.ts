// SPDX-License-Identifier: Apache-2.0
// The node's NICs that attachments move into pods. Source: CNI plugin host-device, README and getLink.
import { isJsonObject } from "@patchbay/api/json";
import { readText } from "../definition/needs.ts";
import type { AttachmentRequest, NetworkConfigList } from "../../interfaces/cni.ts";
import { isAppError } from "@patchbay/base";
import type { NodeNic, NodeNicName } from "../../interfaces/node/node-nics.ts";

export const HOST_DEVICE_PLUGIN = "host-device";

type Plugin = NetworkConfigList["plugins"][number];

/** Returns the ID of the device to move: the runtime's `deviceID` if the plugin supports it, or else the configured `pciBusID`. */
function readDevice(
  plugin: Plugin,
  capabilityArgs: AttachmentRequest["capabilityArgs"],
): string | undefined {
  const { capabilities } = plugin;
  const deviceId = capabilityArgs["deviceID"];
  const isDeclared = isJsonObject(capabilities) && capabilities["deviceID"] === true;
  if (isDeclared && typeof deviceId === "string" && deviceId !== "") return deviceId;
  return readText(plugin, "pciBusID");
}

/** Returns the property by which the configuration identifies the NIC: the first one that is set, in the order of plugin host-device. */
function readNicName(
  plugin: Plugin,
  capabilityArgs: AttachmentRequest["capabilityArgs"],
): NodeNicName | undefined {
  const name = readText(plugin, "device");
  if (name !== undefined) return { by: "name", name };
  const mac = readText(plugin, "hwaddr");
  if (mac !== undefined) return { by: "mac", mac };
  const path = readText(plugin, "kernelpath");
  if (path !== undefined) return { by: "kernelPath", path };
  const id = readDevice(plugin, capabilityArgs);
  return id === undefined ? undefined : { by: "device", id };
}

export function movesNodeNic({ plugins }: NetworkConfigList): boolean {
  return plugins.some(({ type }) => type === HOST_DEVICE_PLUGIN);
}

export function listMovedNics({
  config,
  capabilityArgs,
}: Pick<AttachmentRequest, "config" | "capabilityArgs">): readonly NodeNicName[] {
  return config.plugins
    .filter(({ type }) => type === HOST_DEVICE_PLUGIN)
    .flatMap((plugin) => readNicName(plugin, capabilityArgs) ?? []);
}

export function isSameNodeNic(one: NodeNic, other: NodeNic): boolean {
  if (one.permanentMac !== undefined) return one.permanentMac === other.permanentMac;
  return one.name === other.name && one.kind === other.kind && other.permanentMac === undefined;
}

export function isHostDeviceFailure(error: unknown): boolean {
  return isAppError(error, "CNI_PLUGIN_FAILED") && error.details["plugin"] === HOST_DEVICE_PLUGIN;
}
