// SPDX-License-Identifier: Apache-2.0
// Firmware, CPU, clock, features and identity of a VMI's domain.
import type { VmiSpec } from "@patchbay/api";
import type { DomainDefinition } from "@patchbay/domain";
import { NVRAM_FILE } from "../spec/disk-files.ts";
import { toLauncherPath, listKernelFiles, buildCpuTopology } from "../spec/machine.ts";
import { findOneOf } from "../spec/guest-devices.ts";

const CPU_POLICIES = ["force", "require", "optional", "disable", "forbid"] as const;
const TICK_POLICIES = ["delay", "catchup", "merge", "discard"] as const;
const TIMER_TRACKS = ["guest", "wall"] as const;
export const WATCHDOG_ACTIONS = ["reset", "poweroff", "shutdown"] as const;
/** Video models for which the launcher has firmware. Source: libvirt formatdomain, "Video devices". */
export const VIDEO_MODELS = ["vga", "bochs", "cirrus", "virtio"] as const;
type Domain = VmiSpec["domain"];

/** Files of Debian's package ovmf: the code and the initial variables. */
const EFI_FILES = {
  codePath: "/usr/share/OVMF/OVMF_CODE_4M.fd",
  templatePath: "/usr/share/OVMF/OVMF_VARS_4M.fd",
};
const EFI_SECURE_BOOT_FILES = {
  codePath: "/usr/share/OVMF/OVMF_CODE_4M.ms.fd",
  templatePath: "/usr/share/OVMF/OVMF_VARS_4M.ms.fd",
};

/** Builds the firmware. The default is BIOS; with EFI, the default is Secure Boot. Source: KubeVirt SetDefaults_Firmware. */
export function buildFirmware({ firmware }: Domain): DomainDefinition["firmware"] {
  const { bios, efi } = firmware?.bootloader ?? {};
  if (efi === undefined) return { kind: "bios", usesSerial: bios?.useSerial === true };
  const secureBoot = efi.secureBoot !== false;
  const files = secureBoot ? EFI_SECURE_BOOT_FILES : EFI_FILES;
  return { kind: "efi", secureBoot, ...files, variablesPath: NVRAM_FILE };
}

export function buildKernel(domain: Domain): Pick<DomainDefinition, "kernel"> {
  const boot = domain.firmware?.kernelBoot;
  if (boot?.container === undefined) return {};
  const { kernel, initrd } = listKernelFiles(domain);
  const { kernelArgs } = boot;
  return {
    kernel: {
      path: toLauncherPath(kernel),
      ...(initrd === undefined ? {} : { initrdPath: toLauncherPath(initrd) }),
      ...(kernelArgs === undefined ? {} : { args: kernelArgs }),
    },
  };
}

interface CpuSettings {
  readonly useEmulation: boolean;
  readonly hasKubeVirtDefaults: boolean;
}

type Cpu = DomainDefinition["cpu"];

/** Returns the CPU model. An emulated guest cannot use host-passthrough, so it gets all features that QEMU can emulate. */
function buildNamedModel(name: string, useEmulation: boolean): NonNullable<Cpu["model"]> {
  if (name === "host-passthrough") return { mode: useEmulation ? "maximum" : "host-passthrough" };
  return name === "host-model" ? { mode: "host-model" } : { mode: "custom", name };
}

function chooseModel({ cpu }: Domain, settings: CpuSettings): Pick<Cpu, "model"> {
  const { useEmulation, hasKubeVirtDefaults } = settings;
  const name = cpu?.model ?? "";
  if (name !== "") return { model: buildNamedModel(name, useEmulation) };
  if (hasKubeVirtDefaults || (cpu?.features ?? []).length > 0)
    return { model: { mode: "host-model" } };
  return useEmulation ? {} : { model: { mode: "host-passthrough" } };
}

/** CPU feature that libvirt's named models contain but current CPUs lack. Source: KubeVirt; libvirt issue 608. */
const DISABLED_MPX = { name: "mpx", policy: "disable" } as const;

export function buildCpu(domain: Domain, settings: CpuSettings): Cpu {
  const { model } = chooseModel(domain, settings);
  const configured = (domain.cpu?.features ?? []).map(({ name, policy }) => ({
    name,
    policy: findOneOf(CPU_POLICIES, policy) ?? "require",
  }));
  const lacksMpx =
    model?.mode === "custom" && !configured.some(({ name }) => name === DISABLED_MPX.name);
  return {
    ...(model === undefined ? {} : { model }),
    ...(settings.hasKubeVirtDefaults ? { topology: buildCpuTopology(domain) } : {}),
    features: lacksMpx ? [...configured, DISABLED_MPX] : configured,
  };
}

export function buildClock({ clock }: Domain): DomainDefinition["clock"] {
  const { utc, timezone } = clock ?? {};
  const timers = buildTimers(clock?.timer ?? {});
  const seconds = utc?.offsetSeconds ?? 0;
  if (utc === undefined && timezone !== undefined && timezone !== "")
    return { offset: { kind: "timezone", timezone }, timers };
  return { offset: seconds === 0 ? { kind: "utc" } : { kind: "seconds", seconds }, timers };
}

function isEnabled(feature: { readonly enabled?: boolean } | undefined): boolean {
  return feature?.enabled !== false;
}

export function buildFeatures({ features }: Domain): DomainDefinition["features"] {
  const { acpi, apic, kvm, pvspinlock, smm } = features ?? {};
  return {
    acpi: isEnabled(acpi),
    apic: isEnabled(apic),
    ...(apic?.endOfInterrupt === undefined ? {} : { apicEndOfInterrupt: apic.endOfInterrupt }),
    ...(kvm === undefined ? {} : { kvmHidden: kvm.hidden === true }),
    ...(pvspinlock === undefined ? {} : { pvspinlock: isEnabled(pvspinlock) }),
    ...(smm === undefined ? {} : { smm: isEnabled(smm) }),
  };
}

export function buildIdentity({ firmware, chassis }: Domain): DomainDefinition["identity"] {
  const serial = firmware?.serial ?? "";
  return { ...(serial === "" ? {} : { serial }), ...(chassis === undefined ? {} : { chassis }) };
}

type Timers = NonNullable<NonNullable<VmiSpec["domain"]["clock"]>["timer"]>;
type Timer = DomainDefinition["clock"]["timers"][number];

const TIMER_NAMES = {
  rtc: "rtc",
  pit: "pit",
  kvm: "kvmclock",
  hpet: "hpet",
  hyperv: "hypervclock",
} as const satisfies Readonly<Record<keyof Timers, Timer["name"]>>;

const TIMER_KINDS = [
  "rtc",
  "pit",
  "kvm",
  "hpet",
  "hyperv",
] as const satisfies readonly (keyof Timers)[];

interface AnyTimer {
  readonly present?: boolean;
  readonly tickPolicy?: string;
  readonly track?: string;
}

/** Builds the timers. A timer in the spec is present unless the spec disables it. Source: KubeVirt api/core/v1 schema.go, type Timer. */
function buildTimers(timers: Timers): readonly Timer[] {
  return TIMER_KINDS.flatMap((kind) => {
    const timer: AnyTimer | undefined = timers[kind];
    if (timer === undefined) return [];
    const tickPolicy = findOneOf(TICK_POLICIES, timer.tickPolicy);
    const track = findOneOf(TIMER_TRACKS, timer.track);
    return [
      {
        name: TIMER_NAMES[kind],
        isPresent: timer.present !== false,
        ...(tickPolicy === undefined ? {} : { tickPolicy }),
        ...(track === undefined ? {} : { track }),
      },
    ];
  });
}
