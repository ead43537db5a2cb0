// SPDX-License-Identifier: Apache-2.0
// Devices that are neither NICs nor disks. Source: libvirt formatdomain, "Devices".
import { AGENT_CHANNEL, type InputDefinition } from "../../definition/devices.ts";
import type { DomainDefinition } from "../../definition/domain.ts";
import { machineFamilyOf } from "../../machine.ts";
import { addressElement, given, virtioModel, yesNo, type Element } from "./element.ts";

/** The root of PCI, its ports and its bridges. */
export function pciControllers(definition: DomainDefinition): readonly Element[] {
  const family = machineFamilyOf(definition.machine);
  const root = family === "pc" ? "pci-root" : "pcie-root";
  return [
    { "@type": "pci", "@index": "0", "@model": root },
    ...definition.ports.map((port) => ({
      "@type": "pci",
      "@index": String(port.index),
      "@model": "pcie-root-port",
      address: addressElement(port.address, port.multifunction),
    })),
    ...definition.bridges.map(({ index, address }) => ({
      "@type": "pci",
      "@index": String(index),
      "@model": "pcie-to-pci-bridge",
      address: addressElement(address),
    })),
  ];
}

/** The controller that the agent's channel is on. */
export function agentControllers({ agent }: DomainDefinition): readonly Element[] {
  if (agent === undefined) return [];
  const controller = {
    "@type": "virtio-serial",
    "@index": "0",
    "@model": virtioModel(agent.pciAddress),
    address: addressElement(agent.pciAddress),
  };
  return [controller];
}

/** The channel of the guest's agent. */
export function agentElements({ agent }: DomainDefinition): Element {
  if (agent === undefined) return {};
  const channel = {
    "@type": "unix",
    source: { "@mode": "bind", "@path": agent.socketPath },
    target: { "@type": "virtio", "@name": AGENT_CHANNEL },
  };
  return { channel };
}

/** The serial console. */
export function consoleElements({ console }: DomainDefinition): Element {
  if (console === undefined) return {};
  const serial = {
    "@type": "unix",
    source: { "@mode": "bind", "@path": console.socketPath },
    log: { "@file": console.logPath, "@append": "on" },
    target: { "@port": "0" },
  };
  return { serial };
}

/** Heads: one monitor. */
function displayElements({ display }: DomainDefinition): Element {
  if (display === undefined) return {};
  const { socketPath, model, memoryKiB, pciAddress } = display;
  return {
    graphics: { "@type": "vnc", "@socket": socketPath },
    video: {
      model: given({ "@type": model, "@heads": "1", "@vram": memoryKiB }),
      address: addressElement(pciAddress),
    },
  };
}

/** Randomness of the launcher's /dev/urandom, which never blocks. */
function rngElements({ rng }: DomainDefinition): Element {
  if (rng === undefined) return {};
  const { pciAddress } = rng;
  const element = {
    "@model": virtioModel(pciAddress),
    backend: { "@model": "random", "#text": "/dev/urandom" },
    address: addressElement(pciAddress),
  };
  return { rng: element };
}

function watchdogElements({ watchdog }: DomainDefinition): Element {
  if (watchdog === undefined) return {};
  const { alias, action, pciAddress } = watchdog;
  const element = {
    "@model": "i6300esb",
    "@action": action,
    alias: { "@name": alias },
    address: addressElement(pciAddress),
  };
  return { watchdog: element };
}

function tpmElements({ tpm }: DomainDefinition): Element {
  if (tpm === undefined) return {};
  const backend = {
    "@type": "emulator",
    "@version": "2.0",
    "@persistent_state": yesNo(tpm.isPersistent),
  };
  return { tpm: { "@model": tpm.model, backend } };
}

function inputElement(input: InputDefinition): Element {
  const alias = { "@name": input.alias };
  if (input.bus === "usb") {
    const address = { "@type": "usb", "@bus": "0", "@port": String(input.port) };
    return { "@type": input.type, "@bus": "usb", alias, address };
  }
  // There is no transitional one, so none has to be named.
  return {
    "@type": input.type,
    "@bus": "virtio",
    alias,
    address: addressElement(input.pciAddress),
  };
}

/** What only some guests have. */
export function optionalDevices(definition: DomainDefinition): Element {
  return {
    ...displayElements(definition),
    input: definition.inputs.map(inputElement),
    ...rngElements(definition),
    ...watchdogElements(definition),
    ...tpmElements(definition),
  };
}
