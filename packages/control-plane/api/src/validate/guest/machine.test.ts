// SPDX-License-Identifier: Apache-2.0
// Firmware, processors, amounts, words and the pod.
import { describe, expect, test } from "vitest";
import {
  causesOfGuest,
  invalid,
  withDisk,
  withDomain,
  type GuestRow,
} from "../../testing/guest-rows.ts";

const DOMAIN = "spec.domain";
const RESOURCES = `${DOMAIN}.resources`;

const AMOUNT_ROWS: readonly GuestRow[] = [
  {
    name: "amounts within their limits",
    spec: withDomain({
      memory: { guest: "1Gi" },
      resources: {
        requests: { memory: "1Gi", cpu: "500m" },
        limits: { memory: "1Gi", cpu: 1, "example.com/device": "1" },
      },
    }),
    want: [],
  },
  {
    name: "requests above their limits",
    spec: withDomain({
      resources: { requests: { memory: "2Gi", cpu: 2 }, limits: { memory: "1Gi", cpu: "1500m" } },
    }),
    want: [
      invalid(
        `${RESOURCES}.requests.memory`,
        `${RESOURCES}.requests.memory '2Gi' is greater than ${RESOURCES}.limits.memory '1Gi'`,
      ),
      invalid(
        `${RESOURCES}.requests.cpu`,
        `${RESOURCES}.requests.cpu '2' is greater than ${RESOURCES}.limits.cpu '1500m'`,
      ),
    ],
  },
  {
    name: "guest memory above the limit",
    spec: withDomain({ memory: { guest: "2Gi" }, resources: { limits: { memory: "1Gi" } } }),
    want: [
      invalid(
        `${DOMAIN}.memory.guest`,
        `${DOMAIN}.memory.guest '2Gi' must be equal to or less than the memory limit ${RESOURCES}.limits.memory '1Gi'`,
      ),
    ],
  },
  {
    name: "memory without a unit",
    spec: withDomain({ resources: { requests: { memory: 512 } } }),
    want: [
      invalid(
        `${RESOURCES}.requests.memory`,
        `${RESOURCES}.requests.memory '512': must be greater than or equal to 1M.`,
      ),
    ],
  },
  {
    name: "negative amounts",
    spec: withDomain({ resources: { limits: { cpu: "-1" } } }),
    want: [
      invalid(
        `${RESOURCES}.limits.cpu`,
        `${RESOURCES}.limits.cpu '-1': must be greater than or equal to 0.`,
      ),
    ],
  },
  {
    name: "unparseable amounts in all fields",
    spec: {
      ...withDisk({}, { emptyDisk: { capacity: "much" } }),
      domain: {
        devices: { disks: [{ name: "root" }] },
        memory: { guest: "12Gx", maxGuest: "1 Gi" },
        resources: { limits: { "example.com/device": "one" } },
      },
    },
    want: [
      [`${DOMAIN}.memory.guest`, "12Gx"],
      [`${DOMAIN}.memory.maxGuest`, "1 Gi"],
      [`${RESOURCES}.limits.example.com/device`, "one"],
      ["spec.volumes[0].emptyDisk.capacity", "much"],
    ].map(([field = "", text = ""]) =>
      invalid(field, `${text} is not a quantity; write, for example, 128Mi`),
    ),
  },
];

const CPU_ROWS: readonly GuestRow[] = [
  { name: "255 vCPUs", spec: withDomain({ cpu: { sockets: 255 } }), want: [] },
  {
    name: "256 vCPUs",
    spec: withDomain({ cpu: { sockets: 4, cores: 32, threads: 2 } }),
    want: [
      invalid(`${DOMAIN}.cpu`, `${DOMAIN}.cpu gives the guest 256 processors; it can have 255`),
    ],
  },
  {
    name: "more sockets than the maximum",
    spec: withDomain({ cpu: { sockets: 3, maxSockets: 2 } }),
    want: [
      invalid(
        `${DOMAIN}.cpu.sockets`,
        "Number of sockets in CPU topology is greater than the maximum sockets allowed",
      ),
    ],
  },
  {
    name: "the maximum number of sockets",
    spec: withDomain({ cpu: { sockets: 2, maxSockets: 2 } }),
    want: [],
  },
];

const FIRMWARE = `${DOMAIN}.firmware`;

function withFirmware(firmware: object, features?: object): object {
  return withDomain({ firmware, ...(features === undefined ? {} : { features }) });
}

const FIRMWARE_ROWS: readonly GuestRow[] = [
  ...[
    withFirmware({ bootloader: { efi: { secureBoot: false } } }),
    withFirmware({ bootloader: { efi: {} } }, { smm: {} }),
    withFirmware({ bootloader: { bios: {} }, uuid: "5d307ca9-b3ef-428c-8861-06e72d69f223" }),
    withFirmware({ serial: "a".repeat(256), uuid: "" }),
    withFirmware({ kernelBoot: { kernelArgs: "quiet", container: { image: "a" } } }),
    withFirmware({ kernelBoot: {} }),
  ].map((spec, index) => ({ name: `firmware ${String(index)}`, spec, want: [] })),
  {
    name: "two boot loaders",
    spec: withFirmware({ bootloader: { bios: {}, efi: { secureBoot: false } } }),
    want: [
      invalid(
        `${FIRMWARE}.bootloader`,
        `${FIRMWARE}.bootloader has both EFI and BIOS configured, but they are mutually exclusive.`,
      ),
    ],
  },
  ...[undefined, { smm: { enabled: false } }].map((features) => ({
    name: `secure boot with features ${JSON.stringify(features)}`,
    spec: withFirmware({ bootloader: { efi: {} } }, features),
    want: [
      invalid(
        DOMAIN,
        `${DOMAIN} has EFI SecureBoot enabled. SecureBoot requires SMM, which is currently disabled.`,
      ),
    ],
  })),
  {
    name: "a kernel without an image",
    spec: withFirmware({ kernelBoot: { container: { image: "" } } }),
    want: [
      [
        "FieldValueRequired",
        `${FIRMWARE}.kernelBoot.container.image`,
        `${FIRMWARE}.kernelBoot.container must be defined with an image`,
      ],
    ],
  },
  {
    name: "arguments without a kernel",
    spec: withFirmware({ kernelBoot: { kernelArgs: "quiet" } }),
    want: [
      invalid(
        `${FIRMWARE}.kernelBoot.kernelArgs`,
        "kernel arguments cannot be provided without an external kernel",
      ),
    ],
  },
  {
    name: "an invalid serial number and an invalid UUID",
    spec: withFirmware({ serial: `${"a".repeat(256)} `, uuid: "1234" }),
    want: [
      invalid(
        `${FIRMWARE}.serial`,
        `${FIRMWARE}.serial must be less than or equal to 256 in length, if specified`,
      ),
      invalid(
        `${FIRMWARE}.serial`,
        `${FIRMWARE}.serial must be made up of the following characters [A-Za-z0-9_.+-], if specified`,
      ),
      invalid(
        `${FIRMWARE}.uuid`,
        `${FIRMWARE}.uuid must be a UUID, for example 5d307ca9-b3ef-428c-8861-06e72d69f223`,
      ),
    ],
  },
];

const DISK = `${DOMAIN}.devices.disks[0]`;

const ENUM_ROWS: readonly GuestRow[] = [
  {
    name: "enum values of a disk",
    spec: withDisk({
      cache: "unsafe",
      io: "default",
      errorPolicy: "panic",
      cdrom: { tray: "shut" },
    }),
    want: [
      invalid(`${DISK}.cache`, `${DISK}.cache has invalid value unsafe`),
      [
        "FieldValueNotSupported",
        `${DISK}.io`,
        `Disk IO mode for ${DISK}.io is not supported. Supported modes are: native, threads.`,
      ],
      invalid(`${DISK}.errorPolicy`, `${DISK}.errorPolicy has invalid value "panic"`),
      invalid(
        `${DISK}.cdrom.tray`,
        `${DISK}.cdrom.tray has invalid value shut; it can be open, closed`,
      ),
    ],
  },
  {
    name: "enum values of devices",
    spec: withDomain({
      cpu: { features: [{ name: "apic" }, { name: "vmx", policy: "maybe" }] },
      ioThreadsPolicy: "many",
      clock: { timer: { rtc: { track: "sun", tickPolicy: "catchup" }, hpet: { present: false } } },
      devices: {
        inputs: [{ name: "a", type: "keyboard", bus: "ps2" }],
        watchdog: { name: "w", i6300esb: { action: "bark" } },
      },
    }),
    want: [
      invalid(`${DOMAIN}.devices.inputs[0].bus`, "Input device can have only virtio or usb bus."),
      invalid(`${DOMAIN}.devices.inputs[0].type`, "Input device can have only tablet type."),
      [
        "FieldValueNotSupported",
        `${DOMAIN}.cpu.features[1].policy`,
        `${DOMAIN}.cpu.features[1].policy: CPU feature uses policy maybe that is not supported.`,
      ],
      invalid(`${DOMAIN}.ioThreadsPolicy`, "Invalid IOThreadsPolicy (many)"),
      invalid(
        `${DOMAIN}.clock.timer.rtc.track`,
        `${DOMAIN}.clock.timer.rtc.track has invalid value sun; it can be guest, wall`,
      ),
      invalid(
        `${DOMAIN}.devices.watchdog.i6300esb.action`,
        `${DOMAIN}.devices.watchdog.i6300esb.action has invalid value bark; it can be poweroff, reset, shutdown`,
      ),
    ],
  },
  {
    name: "enum values of the pod",
    spec: { domain: {}, evictionStrategy: "Flee", startStrategy: "", dnsPolicy: "Mine" },
    want: [
      invalid(
        "spec.evictionStrategy",
        "spec.evictionStrategy is set with an unrecognized option: Flee",
      ),
      [
        "FieldValueNotSupported",
        "spec.dnsPolicy",
        "DNSPolicy: Mine is not supported, valid values: [ClusterFirstWithHostNet ClusterFirst Default None ]",
      ],
    ],
  },
];

const POD_ROWS: readonly GuestRow[] = [
  {
    name: "valid DNS names",
    spec: { domain: {}, hostname: "web-1", subdomain: "a.b" },
    want: [],
  },
  {
    name: "invalid DNS names",
    spec: { domain: {}, hostname: "web.1", subdomain: "a..b" },
    want: [
      invalid(
        "spec.hostname",
        "spec.hostname does not conform to the kubernetes DNS_LABEL rules : must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
      ),
      invalid(
        "spec.subdomain",
        "spec.subdomain does not conform to the kubernetes DNS_SUBDOMAIN rules : must consist of lower case alphanumeric characters, '.' or '-', and must start and end with an alphanumeric character",
      ),
    ],
  },
  {
    name: "dnsPolicy None without dnsConfig",
    spec: { domain: {}, dnsPolicy: "None" },
    want: [
      ["FieldValueRequired", "spec.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None"],
    ],
  },
  {
    name: "name servers that are not addresses",
    spec: {
      domain: {},
      dnsConfig: { nameservers: ["01.1.1.1", "ns.example", "1.1.1.1/8"] },
    },
    want: [
      invalid("spec.dnsConfig.nameservers[1]", "must be valid IP address: ns.example"),
      invalid("spec.dnsConfig.nameservers[2]", "must be valid IP address: 1.1.1.1/8"),
    ],
  },
  {
    name: "dnsPolicy None without name servers",
    spec: { domain: {}, dnsPolicy: "None", dnsConfig: { searches: ["a"] } },
    want: [
      [
        "FieldValueRequired",
        "spec.dnsConfig.nameservers",
        "must provide at least one DNS nameserver when `dnsPolicy` is None",
      ],
    ],
  },
  {
    name: "too many name servers and search domains",
    spec: {
      domain: {},
      dnsConfig: {
        nameservers: Array.from({ length: 4 }, () => "192.0.2.1"),
        searches: Array.from({ length: 33 }, () => "a"),
      },
    },
    want: [
      invalid("spec.dnsConfig.nameservers", "must not have more than 3 nameservers"),
      invalid("spec.dnsConfig.searches", "must not have more than 32 search paths"),
    ],
  },
  {
    name: "the maximum number of name servers and search domains",
    spec: {
      domain: {},
      dnsPolicy: "None",
      dnsConfig: {
        nameservers: Array.from({ length: 3 }, () => "192.0.2.1"),
        searches: Array.from({ length: 32 }, () => "a"),
      },
    },
    want: [],
  },
];

describe.each([
  ["amounts", AMOUNT_ROWS],
  ["processors", CPU_ROWS],
  ["firmware", FIRMWARE_ROWS],
  ["words", ENUM_ROWS],
  ["the pod", POD_ROWS],
])("%s", (_title, rows) => {
  test.each(rows)("$name", ({ spec, want }) => {
    expect(causesOfGuest(spec)).toEqual(want);
  });
});
