// SPDX-License-Identifier: Apache-2.0
// The machine: boot, processors, features, clock, identity. Source: libvirt formatdomain, the sections of those names.
import type { DomainDefinition } from "../../definition/domain.ts";
import type {
  ClockDefinition,
  CpuDefinition,
  FirmwareDefinition,
  IdentityDefinition,
  KernelDefinition,
  TimerDefinition,
} from "../../definition/machine.ts";
import { given, onOff, yesNo, type Element } from "./element.ts";

function kernelElements({ path, initrdPath, args }: KernelDefinition): Element {
  return given({ kernel: path, initrd: initrdPath, cmdline: args });
}

function firmwareElements(firmware: FirmwareDefinition): Element {
  if (firmware.kind === "bios") return firmware.usesSerial ? { bios: { "@useserial": "yes" } } : {};
  return {
    loader: {
      "@readonly": "yes",
      "@secure": yesNo(firmware.secureBoot),
      "@type": "pflash",
      "#text": firmware.codePath,
    },
    nvram: { "@template": firmware.templatePath, "#text": firmware.variablesPath },
  };
}

function hasIdentity({ serial, chassis }: IdentityDefinition): boolean {
  return serial !== undefined || chassis !== undefined;
}

/** What is booted, and whether the guest reads the given identity. */
export function osElement({ machine, kernel, firmware, identity }: DomainDefinition): Element {
  return {
    type: { "@arch": "x86_64", "@machine": machine, "#text": "hvm" },
    ...firmwareElements(firmware),
    ...(kernel === undefined ? {} : kernelElements(kernel)),
    ...(hasIdentity(identity) ? { smbios: { "@mode": "sysinfo" } } : {}),
  };
}

function entries(values: Readonly<Record<string, string | undefined>>): Element {
  const present = Object.entries(values).filter(([, value]) => value !== undefined);
  return { entry: present.map(([name, value]) => ({ "@name": name, "#text": value })) };
}

/** What the guest reads by SMBIOS. */
export function identityElements({ identity, uuid }: DomainDefinition): Element {
  if (!hasIdentity(identity)) return {};
  const { serial, chassis } = identity;
  return {
    sysinfo: {
      "@type": "smbios",
      system: entries({ uuid, serial }),
      ...(chassis === undefined ? {} : { chassis: entries(chassis) }),
    },
  };
}

function modelElements(model: CpuDefinition["model"]): Element {
  if (model === undefined) return {};
  if (model.mode !== "custom") return { "@mode": model.mode };
  // Never another than the one asked for.
  return {
    "@mode": "custom",
    "@match": "exact",
    model: { "@fallback": "forbid", "#text": model.name },
  };
}

/** The processors; nothing where nothing is said of them. */
export function cpuElements({ model, topology, features }: CpuDefinition): Element {
  if (model === undefined && topology === undefined && features.length === 0) return {};
  return {
    cpu: given({
      ...modelElements(model),
      topology:
        topology === undefined
          ? undefined
          : {
              "@sockets": String(topology.sockets),
              "@cores": String(topology.cores),
              "@threads": String(topology.threads),
            },
      feature: features.map(({ name, policy }) => ({ "@policy": policy, "@name": name })),
    }),
  };
}

/**
 * Code that QEMU has translated, MiB: without a bound it takes up to 1 GiB, more with each boot, until the launcher's
 * memory is used up and QEMU is killed (measured: after 2 to 4 resets of a guest of 128 MiB).
 */
const TRANSLATION_MIB = 96;

/** Bounds the cache of an emulated guest. Source: libvirt formatdomain, "Hypervisor features". */
function translation({ accelerator }: DomainDefinition): Element {
  if (accelerator === "kvm") return {};
  return { tcg: { "tb-cache": { "@unit": "MiB", "#text": String(TRANSLATION_MIB) } } };
}

/** Features of the machine. */
export function featuresElement(definition: DomainDefinition): Element {
  const { acpi, apic, apicEndOfInterrupt, smm, kvmHidden, pvspinlock } = definition.features;
  const endOfInterrupt =
    apicEndOfInterrupt === undefined ? "" : { "@eoi": onOff(apicEndOfInterrupt) };
  return given({
    acpi: acpi ? "" : undefined,
    apic: apic ? endOfInterrupt : undefined,
    kvm: kvmHidden === undefined ? undefined : { hidden: { "@state": onOff(kvmHidden) } },
    pvspinlock: pvspinlock === undefined ? undefined : { "@state": onOff(pvspinlock) },
    smm: smm === undefined ? undefined : { "@state": onOff(smm) },
    ...translation(definition),
  });
}

function timerElement({ name, isPresent, tickPolicy, track }: TimerDefinition): Element {
  return given({
    "@name": name,
    "@present": yesNo(isPresent),
    "@tickpolicy": tickPolicy,
    "@track": track,
  });
}

function offsetElement(offset: ClockDefinition["offset"]): Element {
  if (offset.kind === "utc") return { "@offset": "utc" };
  return offset.kind === "seconds"
    ? { "@offset": "variable", "@adjustment": String(offset.seconds), "@basis": "utc" }
    : { "@offset": "timezone", "@timezone": offset.timezone };
}

/** The clock and its timers. */
export function clockElement({ offset, timers }: ClockDefinition): Element {
  return { ...offsetElement(offset), timer: timers.map(timerElement) };
}
