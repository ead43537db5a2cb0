// SPDX-License-Identifier: Apache-2.0
// Which firmware, processors, clock, features and identity does a guest get?
import type { VmiSpec } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { buildClock, buildCpu, buildFeatures, buildFirmware, buildIdentity } from "./machine.ts";

type Domain = VmiSpec["domain"];

describe("the firmware", () => {
  const efi = { kind: "efi", variablesPath: "/run/state/nvram.fd" };
  const plain = {
    ...efi,
    secureBoot: false,
    codePath: "/usr/share/OVMF/OVMF_CODE_4M.fd",
    templatePath: "/usr/share/OVMF/OVMF_VARS_4M.fd",
  };
  const secure = {
    ...efi,
    secureBoot: true,
    codePath: "/usr/share/OVMF/OVMF_CODE_4M.ms.fd",
    templatePath: "/usr/share/OVMF/OVMF_VARS_4M.ms.fd",
  };
  test.each<{ name: string; firmware: NonNullable<Domain["firmware"]>; want: object }>([
    {
      name: "is BIOS by default",
      firmware: {},
      want: { kind: "bios", usesSerial: false },
    },
    {
      name: "is BIOS with output on the serial console",
      firmware: { bootloader: { bios: { useSerial: true } } },
      want: { kind: "bios", usesSerial: true },
    },
    { name: "is EFI", firmware: { bootloader: { efi: { secureBoot: false } } }, want: plain },
    {
      name: "is EFI with secure boot by default",
      firmware: { bootloader: { efi: {} } },
      want: secure,
    },
  ])("$name", ({ firmware, want }) => {
    expect(buildFirmware({ firmware })).toEqual(want);
  });
});

describe("the processors", () => {
  const one = { sockets: 1, cores: 1, threads: 1 };
  const hostModel = { mode: "host-model" };
  const noMpx = { name: "mpx", policy: "disable" };
  test.each<{ name: string; domain: Domain; emulated?: true; old?: true; want: object }>([
    {
      name: "are host-model by default",
      domain: {},
      want: { model: hostModel, topology: one, features: [] },
    },
    {
      name: "are a named model with the topology, without the removed feature mpx",
      domain: { cpu: { model: "Haswell", cores: 2 } },
      want: {
        model: { mode: "custom", name: "Haswell" },
        topology: { ...one, cores: 2 },
        features: [noMpx],
      },
    },
    {
      name: "have the requested features",
      domain: {
        cpu: { model: "Haswell", features: [{ name: "mpx" }, { name: "vmx", policy: "forbid" }] },
      },
      want: {
        model: { mode: "custom", name: "Haswell" },
        topology: one,
        features: [
          { name: "mpx", policy: "require" },
          { name: "vmx", policy: "forbid" },
        ],
      },
    },
    {
      name: "are host-passthrough",
      domain: { cpu: { model: "host-passthrough" } },
      want: { model: { mode: "host-passthrough" }, topology: one, features: [] },
    },
    {
      name: "are the maximum model under emulation instead of host-passthrough",
      domain: { cpu: { model: "host-passthrough" } },
      emulated: true,
      want: { model: { mode: "maximum" }, topology: one, features: [] },
    },
    {
      name: "are a socket for each requested CPU",
      domain: { resources: { requests: { cpu: "1500m" } } },
      want: { model: hostModel, topology: { ...one, sockets: 2 }, features: [] },
    },
    {
      name: "of an older guest remain host-passthrough",
      domain: { cpu: { cores: 2 } },
      old: true,
      want: { model: { mode: "host-passthrough" }, features: [] },
    },
    {
      name: "of an older guest remain QEMU's default",
      domain: {},
      old: true,
      emulated: true,
      want: { features: [] },
    },
    {
      name: "of an older guest are of the requested model",
      domain: { cpu: { model: "host-model" } },
      old: true,
      want: { model: hostModel, features: [] },
    },
    {
      name: "of an older guest with features are host-model",
      domain: { cpu: { features: [{ name: "apic" }] } },
      old: true,
      want: { model: hostModel, features: [{ name: "apic", policy: "require" }] },
    },
  ])("$name", ({ domain, emulated, old, want }) => {
    const settings = { useEmulation: emulated === true, hasKubeVirtDefaults: old !== true };
    expect(buildCpu(domain, settings)).toEqual(want);
  });
});

describe("the clock", () => {
  const utc = { kind: "utc" };
  test.each<{ name: string; clock: NonNullable<Domain["clock"]>; want: object }>([
    { name: "is UTC by default", clock: {}, want: { offset: utc, timers: [] } },
    { name: "is UTC", clock: { utc: { offsetSeconds: 0 } }, want: { offset: utc, timers: [] } },
    {
      name: "has an offset from UTC",
      clock: { utc: { offsetSeconds: -60 } },
      want: { offset: { kind: "seconds", seconds: -60 }, timers: [] },
    },
    {
      name: "is in a time zone",
      clock: { timezone: "Europe/Berlin" },
      want: { offset: { kind: "timezone", timezone: "Europe/Berlin" }, timers: [] },
    },
    {
      name: "is UTC if both are set",
      clock: { timezone: "Europe/Berlin", utc: {} },
      want: { offset: utc, timers: [] },
    },
    {
      name: "has the requested timers",
      clock: {
        timer: {
          hpet: { present: false },
          hyperv: {},
          kvm: { present: true },
          pit: { tickPolicy: "delay" },
          rtc: { tickPolicy: "catchup", track: "guest" },
        },
      },
      want: {
        offset: utc,
        timers: [
          { name: "rtc", isPresent: true, tickPolicy: "catchup", track: "guest" },
          { name: "pit", isPresent: true, tickPolicy: "delay" },
          { name: "kvmclock", isPresent: true },
          { name: "hpet", isPresent: false },
          { name: "hypervclock", isPresent: true },
        ],
      },
    },
  ])("$name", ({ clock, want }) => {
    expect(buildClock({ clock })).toEqual(want);
  });
});

test.each<{ features: NonNullable<Domain["features"]>; want: object }>([
  { features: {}, want: { acpi: true, apic: true } },
  {
    features: { acpi: { enabled: false }, apic: { enabled: false } },
    want: { acpi: false, apic: false },
  },
  {
    features: { acpi: {}, apic: { endOfInterrupt: true }, kvm: { hidden: true } },
    want: { acpi: true, apic: true, apicEndOfInterrupt: true, kvmHidden: true },
  },
  {
    features: { kvm: {}, pvspinlock: { enabled: false }, smm: {} },
    want: { acpi: true, apic: true, kvmHidden: false, pvspinlock: false, smm: true },
  },
])("builds features $features", ({ features, want }) => {
  expect(buildFeatures({ features })).toEqual(want);
});

test.each<{ domain: Domain; want: object }>([
  { domain: {}, want: {} },
  { domain: { firmware: { serial: "" } }, want: {} },
  {
    domain: { firmware: { serial: "s1" }, chassis: { asset: "a" } },
    want: { serial: "s1", chassis: { asset: "a" } },
  },
])("builds the guest's identity $want", ({ domain, want }) => {
  expect(buildIdentity(domain)).toEqual(want);
});
