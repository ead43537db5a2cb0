// SPDX-License-Identifier: Apache-2.0
// Firmware, CPU, clock, features and other devices of the guest. Source: KubeVirt api/core/v1 schema.go.
import { Type } from "../../fields/schema.ts";
import { FIRMWARE_FIELDS, CPU_FIELDS, UNSUPPORTED_FEATURES } from "../../fields/unacted-fields.ts";
import type { TProperties } from "typebox";
import { object, oneOf, supportedValues, text as anyText, unbuilt } from "../../fields/notation.ts";

const text = (description: string) => Type.Optional(Type.String({ description }));
const flag = (description: string) => Type.Optional(Type.Boolean({ description }));

const KernelBootSchema = Type.Object(
  {
    kernelArgs: text("The kernel's command line."),
    container: Type.Optional(
      Type.Object(
        {
          image: Type.String({ description: "Image with kernel and initrd." }),
          kernelPath: text("Path of the kernel in the image; vmlinuz when absent."),
          initrdPath: text("Path of the initrd in the image."),
          imagePullPolicy: text(
            "When the image is pulled: Always, IfNotPresent or Never; IfNotPresent when absent.",
          ),
          imagePullSecret: text("Secret of the VM's namespace for pulling the image."),
        },
        { description: "Where kernel and initrd are." },
      ),
    ),
  },
  { description: "The guest is booted from a kernel and an initrd." },
);

export const EfiSchema = Type.Object(
  {
    persistent: Type.Optional(
      Type.Boolean({ description: "Variables persist over restarts, on a claim of the VM." }),
    ),
    secureBoot: flag("Only signed code is booted; true when absent. It needs features.smm."),
  },
  { description: "EFI firmware." },
);

const BootloaderSchema = Type.Object(
  {
    bios: Type.Optional(
      Type.Object(
        { useSerial: flag("The firmware uses the serial console.") },
        { description: "BIOS firmware." },
      ),
    ),
    efi: Type.Optional(EfiSchema),
  },
  { description: "Firmware of the guest; BIOS when absent." },
);

export const FirmwareSchema = Type.Object(
  {
    kernelBoot: Type.Optional(KernelBootSchema),
    bootloader: Type.Optional(BootloaderSchema),
    serial: text("Serial number of the machine."),
    uuid: text("UUID of the machine; made from namespace and name when absent."),
    ...FIRMWARE_FIELDS,
  },
  { description: "What the guest starts with." },
);

export const CpuFeatureSchema = Type.Object(
  {
    name: Type.String({ description: "Name of the feature, for example apic." }),
    policy: Type.Optional(
      Type.String({
        description: "force, require, optional, disable or forbid; require when absent.",
      }),
    ),
  },
  { description: "One feature." },
);

export const CpuSchema = Type.Object(
  {
    cores: Type.Optional(Type.Integer({ minimum: 1, description: "Cores of each socket." })),
    sockets: Type.Optional(Type.Integer({ minimum: 1, description: "Sockets." })),
    threads: Type.Optional(Type.Integer({ minimum: 1, description: "Threads of each core." })),
    model: Type.Optional(
      Type.String({
        description:
          "Model that the guest sees: host-model, host-passthrough, or one of libvirt's model names; host-model when absent.",
      }),
    ),
    features: Type.Optional(
      Type.Array(CpuFeatureSchema, { description: "Features that the guest has or lacks." }),
    ),
    ...CPU_FIELDS,
  },
  { description: "Virtual processors." },
);

const present = Type.Optional(
  Type.Boolean({ description: "Whether the timer is there; true when absent." }),
);
const tickPolicy = text("How missed ticks are delivered: delay, catchup, merge or discard.");

const timer = <T extends TProperties>(description: string, properties: T) =>
  Type.Optional(Type.Object({ present, ...properties }, { description }));

export const TimerSchema = Type.Object(
  {
    hpet: timer("High Precision Event Timer.", { tickPolicy }),
    hyperv: timer("Hyper-V reference clock.", {}),
    kvm: timer("KVM clock.", {}),
    pit: timer("Programmable Interval Timer.", { tickPolicy }),
    rtc: timer("Real Time Clock.", { tickPolicy, track: text("guest or wall.") }),
  },
  { description: "Timers that the guest has or lacks." },
);

/** Fields of the clock's offset. Source: KubeVirt ClockOffset. */
export const OFFSET_FIELDS = {
  utc: Type.Optional(
    Type.Object(
      {
        offsetSeconds: Type.Optional(
          Type.Integer({
            description: "Seconds by which the guest's clock differs from UTC; 0 when absent.",
          }),
        ),
      },
      { description: "The clock shows UTC." },
    ),
  ),
  timezone: text("Zone that the clock shows, for example Europe/Berlin."),
};

export const ClockSchema = Type.Object(
  {
    ...OFFSET_FIELDS,
    timer: Type.Optional(TimerSchema),
  },
  { description: "The guest's clock; UTC when absent." },
);

/** Builds the schema of a feature, which is enabled unless `enabled` is false. Source: KubeVirt FeatureState. */
const feature = <T extends TProperties>(description: string, properties: T) =>
  Type.Optional(
    Type.Object(
      {
        enabled: Type.Optional(
          Type.Boolean({ description: "Whether it is on; true when absent." }),
        ),
        ...properties,
      },
      { description },
    ),
  );

export const SUPPORTED_FEATURES = {
  acpi: feature("ACPI; the guest has it when this is absent.", {}),
  apic: feature("APIC; the guest has it when this is absent.", {
    endOfInterrupt: Type.Optional(
      Type.Boolean({ description: "End of interrupt is signaled without a VM exit." }),
    ),
  }),
  kvm: Type.Optional(
    Type.Object(
      { hidden: Type.Optional(Type.Boolean({ description: "The guest does not see it." })) },
      { description: "Whether the guest can detect KVM." },
    ),
  ),
  pvspinlock: feature("Paravirtualized spinlocks.", {}),
  smm: feature("System Management Mode, which secure boot needs.", {}),
};

export const FeaturesSchema = Type.Object(
  {
    ...SUPPORTED_FEATURES,
    ...UNSUPPORTED_FEATURES,
  },
  { description: "Features of the machine." },
);

const InputSchema = Type.Object(
  {
    bus: text("usb or virtio; usb when absent."),
    name: Type.String({ description: "Name." }),
    type: Type.String({ description: "tablet." }),
  },
  { description: "One device." },
);

const WatchdogSchema = Type.Object(
  {
    name: Type.String({ description: "Name." }),
    i6300esb: Type.Optional(
      Type.Object(
        { action: text("What it does: reset, poweroff or shutdown; reset when absent.") },
        { description: "A PCI watchdog of Intel's." },
      ),
    ),
    diag288: unbuilt(
      object("A watchdog of IBM Z.", { action: anyText("reset, poweroff or shutdown.") }),
    ),
  },
  { description: "A watchdog, which acts when the guest no longer resets its timer." },
);

const TpmSchema = Type.Object(
  {
    enabled: flag("Whether it is there; true when absent."),
    persistent: Type.Optional(
      Type.Boolean({ description: "Its contents persist over restarts, on a claim of the VM." }),
    ),
  },
  { description: "A TPM 2.0." },
);

export const GUEST_DEVICES = {
  inputs: Type.Optional(Type.Array(InputSchema, { description: "Input devices." })),
  rng: Type.Optional(Type.Object({}, { description: "A source of randomness for the guest." })),
  tpm: Type.Optional(TpmSchema),
  video: Type.Optional(
    Type.Object(
      {
        type: Type.Optional(
          Type.String({
            description: "Model: vga, bochs, cirrus or virtio.",
            ...supportedValues(
              oneOf("", "vga", "bochs", "cirrus", "virtio"),
              "use vga, bochs, cirrus or virtio",
            ),
          }),
        ),
      },
      { description: "The graphics card; vga when absent." },
    ),
  ),
  watchdog: Type.Optional(WatchdogSchema),
  autoattachGraphicsDevice: flag(
    "A graphics device, whose screen is seen by VNC; true when absent.",
  ),
  autoattachInputDevice: flag("A tablet where no input device is declared; false when absent."),
  autoattachPodInterface: flag(
    "An interface on the pod's network, where none is declared when the VM is created; true when absent.",
  ),
  autoattachSerialConsole: flag("A serial console; true when absent."),
  logSerialConsole: flag(
    "Logs the serial console in the launcher's container guest-console-log; the cluster's default when absent.",
  ),
};

export const ChassisSchema = Type.Object(
  {
    asset: text("Asset tag."),
    manufacturer: text("Manufacturer."),
    serial: text("Serial number."),
    sku: text("Stock keeping unit."),
    version: text("Version."),
  },
  { description: "What the guest reads of its chassis." },
);
