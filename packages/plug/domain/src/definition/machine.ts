// SPDX-License-Identifier: Apache-2.0
// What a domain's machine is beside its devices: firmware, processors, clock, features, what it says of itself.

/** Firmware of the guest. Paths are those in the launcher. */
export type FirmwareDefinition =
  | {
      readonly kind: "bios";
      /** Whether it speaks on the serial console. */ readonly usesSerial: boolean;
    }
  | {
      readonly kind: "efi";
      /** Whether only signed code is booted; needs System Management Mode. */
      readonly secureBoot: boolean;
      readonly codePath: string;
      /** What variables begin with: libvirt copies it to `variablesPath` where nothing is. */
      readonly templatePath: string;
      readonly variablesPath: string;
    };

/** A kernel that is booted directly. */
export interface KernelDefinition {
  readonly path: string;
  readonly initrdPath?: string;
  readonly args?: string;
}

/** A feature of the processor. Source: libvirt formatdomain, "CPU model and topology". */
export interface CpuFeature {
  readonly name: string;
  readonly policy: "force" | "require" | "optional" | "disable" | "forbid";
}

/** The processors, as the guest sees them. */
export interface CpuDefinition {
  /** Sockets, cores of each, threads of each core: their product is the domain's vCPUs. Absent: QEMU's choice. */
  readonly topology?: {
    readonly sockets: number;
    readonly cores: number;
    readonly threads: number;
  };
  /** The host's by its nearest name, the host's itself, all that can be had, or one that has a name. Absent: QEMU's own. */
  readonly model?:
    | { readonly mode: "host-model" | "host-passthrough" | "maximum" }
    | { readonly mode: "custom"; readonly name: string };
  readonly features: readonly CpuFeature[];
}

/** A timer of the guest. Source: libvirt formatdomain, "Time keeping". */
export interface TimerDefinition {
  readonly name: "hpet" | "pit" | "rtc" | "kvmclock" | "hypervclock";
  readonly isPresent: boolean;
  readonly tickPolicy?: "delay" | "catchup" | "merge" | "discard";
  readonly track?: "guest" | "wall";
}

/** The guest's clock. */
export interface ClockDefinition {
  /** UTC, UTC and so many seconds, or the time of a zone. */
  readonly offset:
    | { readonly kind: "utc" }
    | { readonly kind: "seconds"; readonly seconds: number }
    | { readonly kind: "timezone"; readonly timezone: string };
  readonly timers: readonly TimerDefinition[];
}

/** Features of the machine; absent ones are as QEMU has them. */
export interface FeaturesDefinition {
  readonly acpi: boolean;
  readonly apic: boolean;
  /** Whether the end of an interrupt is told without an exit. */
  readonly apicEndOfInterrupt?: boolean;
  readonly smm?: boolean;
  /** Whether the guest does not see that KVM runs it. */
  readonly kvmHidden?: boolean;
  readonly pvspinlock?: boolean;
}

/** What the guest reads of its machine by SMBIOS, beside the UUID, which is the domain's. Source: DMTF DSP0134 sections 7.2 and 7.4. */
export interface IdentityDefinition {
  readonly serial?: string;
  readonly chassis?: Readonly<
    Partial<Record<"asset" | "manufacturer" | "serial" | "sku" | "version", string>>
  >;
}
