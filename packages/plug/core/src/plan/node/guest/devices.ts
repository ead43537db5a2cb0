// SPDX-License-Identifier: Apache-2.0
// Devices of a VMI's domain that are neither NICs nor disks.
import { names, type VirtualMachineInstance, type VmiSpec } from "@patchbay/api";
import type { DomainDefinition, Topology } from "@patchbay/domain";
import { deviceOfInput } from "../../../pcie/devices.ts";
import { hasConsole, inputsOf, tpmOf } from "../../../spec/guest-devices.ts";
import { VIDEO_MODELS, WATCHDOG_ACTIONS, wordOf } from "./words.ts";

function inLauncherDir(name: string): string {
  return `${names.LAUNCHER_DIR}/${name}`;
}

function agentOf({ fixed }: Topology): Pick<DomainDefinition, "agent"> {
  const pciAddress = fixed.get("guestAgent");
  if (pciAddress === undefined) return {};
  return { agent: { socketPath: inLauncherDir(names.AGENT_SOCKET), pciAddress } };
}

/** Source: KubeVirt, which gives every card as much. */
const VIDEO_MEMORY_KIB = 16 * 1024;

function displayOf({ domain }: VmiSpec, { fixed }: Topology): Pick<DomainDefinition, "display"> {
  const pciAddress = fixed.get("display");
  if (pciAddress === undefined) return {};
  const model = wordOf(VIDEO_MODELS, domain.devices?.video?.type) ?? "vga";
  // A virtio card has no memory of its own.
  const memory = model === "virtio" ? {} : { memoryKiB: VIDEO_MEMORY_KIB };
  return { display: { socketPath: inLauncherDir(names.VNC_SOCKET), model, ...memory, pciAddress } };
}

function inputDefinitionsOf(spec: VmiSpec, { fixed }: Topology): DomainDefinition["inputs"] {
  return inputsOf(spec).flatMap(({ bus }, index): DomainDefinition["inputs"] => {
    const alias = `ua-input-${String(index)}`;
    if (bus === "usb") return [{ alias, type: "tablet", bus, port: index + 1 }];
    const pciAddress = fixed.get(deviceOfInput(index));
    return pciAddress === undefined ? [] : [{ alias, type: "tablet", bus, pciAddress }];
  });
}

function rngOf({ fixed }: Topology): Pick<DomainDefinition, "rng"> {
  const pciAddress = fixed.get("rng");
  return pciAddress === undefined ? {} : { rng: { pciAddress } };
}

function watchdogOf({ domain }: VmiSpec, { fixed }: Topology): Pick<DomainDefinition, "watchdog"> {
  const pciAddress = fixed.get("watchdog");
  if (pciAddress === undefined) return {};
  const action = wordOf(WATCHDOG_ACTIONS, domain.devices?.watchdog?.i6300esb?.action) ?? "reset";
  return { watchdog: { alias: "ua-watchdog", action, pciAddress } };
}

/** The model that keeps its state is the newer one. Source: KubeVirt. */
function tpmDefinitionOf(spec: VmiSpec): Pick<DomainDefinition, "tpm"> {
  const tpm = tpmOf(spec);
  if (tpm === undefined) return {};
  const isPersistent = tpm.persistent === true;
  return { tpm: { model: isPersistent ? "tpm-crb" : "tpm-tis", isPersistent } };
}

function consoleOf(spec: VmiSpec): Pick<DomainDefinition, "console"> {
  if (!hasConsole(spec)) return {};
  const socketPath = inLauncherDir(names.CONSOLE_SOCKET);
  return { console: { socketPath, logPath: inLauncherDir(names.CONSOLE_LOG) } };
}

/** All of them; what has no place in the layout is left out. */
export function guestDevicesOf(
  { spec }: VirtualMachineInstance,
  topology: Topology,
): Pick<DomainDefinition, "agent" | "display" | "inputs" | "rng" | "watchdog" | "tpm" | "console"> {
  return {
    ...agentOf(topology),
    ...displayOf(spec, topology),
    inputs: inputDefinitionsOf(spec, topology),
    ...rngOf(topology),
    ...watchdogOf(spec, topology),
    ...tpmDefinitionOf(spec),
    ...consoleOf(spec),
  };
}
