// SPDX-License-Identifier: Apache-2.0
// Fields of the guest's processors, memory, firmware, features and clock that are not acted on. Source: KubeVirt api/core/v1 schema.go.
import {
  anything,
  feature,
  flag,
  harmless,
  integer,
  isOff,
  isOn,
  list,
  object,
  oneOf,
  quantity,
  text,
  unbuilt,
} from "./notation.ts";

/** Of `spec.domain.cpu`, beside sockets, cores and threads. */
export const CPU_FIELDS = {
  model: unbuilt(text("Processor model that the guest sees, for example Haswell or host-model.")),
  features: unbuilt(
    list(
      "Processor features that the guest has or lacks.",
      object(
        "One feature.",
        {
          name: text("Name of the feature, for example apic."),
          policy: text("force, require, optional, disable or forbid."),
        },
        ["name"],
      ),
    ),
  ),
  dedicatedCpuPlacement: unbuilt(flag("Each vCPU has a processor of the node for itself."), {
    unless: oneOf(false),
  }),
  isolateEmulatorThread: unbuilt(flag("One more processor for the emulator's own work."), {
    unless: oneOf(false),
  }),
  maxSockets: harmless(integer("Most sockets that could be plugged while the guest runs.")),
  numa: unbuilt(
    object("How the guest sees the memory's distance.", {
      guestMappingPassthrough: object("The guest sees the node's own layout."),
    }),
  ),
  realtime: unbuilt(
    object("vCPUs with real-time scheduling.", { mask: text("Which vCPUs, for example 0-3,^1.") }),
  ),
};

/** Of `spec.domain.memory`, beside the guest's amount. */
export const MEMORY_FIELDS = {
  hugepages: unbuilt(
    object("Memory in large pages.", { pageSize: text("Size of a page, for example 2Mi.") }),
  ),
  maxGuest: unbuilt(quantity("Most memory that could be plugged while the guest runs."), {
    hint: "leave it out; memory is not plugged",
  }),
  reservedOverhead: harmless(
    object("Memory that is reserved beside the guest's.", {
      addedOverhead: quantity("Memory beside the computed overhead."),
      memLock: text("Whether memory must be locked: NotRequired or Required."),
    }),
  ),
};

/** Of `spec.domain.firmware`, beside kernel boot and boot loader. */
export const FIRMWARE_FIELDS = {
  acpi: unbuilt(
    object("ACPI tables for the guest.", {
      msdmNameRef: text("Volume with the MSDM table."),
      slicNameRef: text("Volume with the SLIC table."),
    }),
  ),
  serial: unbuilt(text("Serial number of the machine.")),
  uuid: unbuilt(text("UUID of the machine; made from namespace and name.")),
};

/** `firmware.bootloader.efi`: a VM that wants it is not started, since its guest would not boot from BIOS. */
export const EFI = unbuilt(
  object("EFI firmware.", {
    persistent: flag("Variables are kept over restarts."),
    secureBoot: flag("Only signed code is booted; true when absent."),
  }),
);

/** Of `firmware.bootloader.bios`, which is what every guest has. */
export const BIOS_FIELDS = {
  useSerial: unbuilt(flag("Firmware speaks on the serial console."), { unless: oneOf(false) }),
};

function timer(what: string, more: Parameters<typeof object>[1] = {}) {
  return object(what, { present: flag("Whether the timer is there."), ...more });
}

const tickPolicy = text("What becomes of ticks that were missed.");

/** Of `spec.domain.clock`, beside UTC. */
export const CLOCK_FIELDS = {
  timer: unbuilt(
    object("Timers that the guest has.", {
      hpet: timer("High Precision Event Timer.", { tickPolicy }),
      hyperv: timer("Hyper-V reference clock."),
      kvm: timer("KVM clock."),
      pit: timer("Programmable Interval Timer.", { tickPolicy }),
      rtc: timer("Real Time Clock.", { tickPolicy, track: text("guest or wall.") }),
    }),
  ),
  timezone: unbuilt(text("Zone that the guest's clock shows, for example Europe/Berlin.")),
};

/** Of `clock.utc`. */
export const UTC_FIELDS = {
  offsetSeconds: unbuilt(integer("Seconds by which the guest's clock differs from UTC."), {
    unless: oneOf(0),
  }),
};

const HYPERV = {
  evmcs: feature("Enlightened VMCS."),
  frequencies: feature("Frequencies of TSC and APIC."),
  ipi: feature("Interrupts between processors by the hypervisor."),
  reenlightenment: feature("Notices of a changed TSC frequency."),
  relaxed: feature("No watchdog for timers."),
  reset: feature("Reset by the hypervisor."),
  runtime: feature("Processor time of the guest."),
  spinlocks: feature("Spinlocks that give way.", { spinlocks: integer("Tries before it does.") }),
  synic: feature("Synthetic interrupt controller."),
  synictimer: feature("Synthetic timers.", { direct: feature("Direct mode.") }),
  tlbflush: feature("Flush of the TLB by the hypervisor.", {
    direct: feature("Direct mode."),
    extended: feature("Extended mode."),
  }),
  vapic: feature("APIC assist page."),
  vendorid: feature("Name of the hypervisor.", { vendorid: text("At most twelve characters.") }),
  vpindex: feature("Number of the virtual processor."),
};

/** Of `spec.domain.features`: what every guest has anyway, and what none has. */
export const FEATURES = {
  acpi: unbuilt(feature("ACPI; the guest has it."), { unless: isOn }),
  apic: unbuilt(
    feature("APIC; the guest has it.", {
      endOfInterrupt: flag("End of interrupts is told without an exit."),
    }),
    {
      unless: (value) =>
        isOn(value) && (value as { endOfInterrupt?: unknown }).endOfInterrupt !== true,
    },
  ),
  hyperv: unbuilt(object("What Windows expects of a hypervisor.", HYPERV)),
  hypervPassthrough: unbuilt(feature("All that KVM offers to Windows."), { unless: isOff }),
  kvm: unbuilt(object("How KVM shows itself.", { hidden: flag("The guest does not see it.") }), {
    unless: (value) => (value as { hidden?: unknown }).hidden !== true,
  }),
  pvspinlock: unbuilt(feature("Spinlocks that give way."), { unless: isOff }),
  smm: unbuilt(feature("System Management Mode."), { unless: isOff }),
};

/** Of `spec.domain` itself, beside the parts of the machine. */
export const DOMAIN_FIELDS = {
  chassis: unbuilt(
    object("What the guest reads of its chassis.", {
      asset: text("Asset tag."),
      manufacturer: text("Manufacturer."),
      serial: text("Serial number."),
      sku: text("Stock keeping unit."),
      version: text("Version."),
    }),
  ),
  ioThreads: harmless(
    object("Threads for disks.", {
      supplementalPoolThreadCount: integer("Threads of the shared pool."),
    }),
  ),
  ioThreadsPolicy: harmless(text("How threads are shared between disks: shared or auto.")),
  launchSecurity: unbuilt(
    object("Memory that the node cannot read.", {
      sev: object("AMD SEV.", {
        attestation: object("The guest proves itself before it starts."),
        dhCert: text("Diffie-Hellman key of the guest's owner, base64."),
        policy: object("What is demanded.", {
          encryptedState: flag("Registers are encrypted too (SEV-ES)."),
        }),
        session: text("Session of the guest's owner, base64."),
      }),
      snp: anything("AMD SEV-SNP."),
      tdx: anything("Intel TDX."),
    }),
  ),
  rebootPolicy: unbuilt(text("What a reboot in the guest does: Reboot or Terminate."), {
    unless: oneOf("", "Reboot"),
  }),
};
