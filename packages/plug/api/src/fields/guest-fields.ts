// SPDX-License-Identifier: Apache-2.0
// Fields of the guest's processors, memory, firmware, features and clock that are not acted on. Source: KubeVirt api/core/v1 schema.go.
import {
  anything,
  feature,
  flag,
  harmless,
  integer,
  isOff,
  object,
  oneOf,
  quantity,
  text,
  unbuilt,
} from "./notation.ts";

/** Of `spec.domain.cpu`, beside the fields that are acted on. */
export const CPU_FIELDS = {
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

/** Of `spec.domain.firmware`, beside the fields that are acted on. */
export const FIRMWARE_FIELDS = {
  acpi: unbuilt(
    object("ACPI tables for the guest.", {
      msdmNameRef: text("Volume with the MSDM table."),
      slicNameRef: text("Volume with the SLIC table."),
    }),
  ),
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

/** Of `spec.domain.features`, beside the fields that are acted on. */
export const FEATURES = {
  hyperv: unbuilt(object("What Windows expects of a hypervisor.", HYPERV)),
  hypervPassthrough: unbuilt(feature("All that KVM offers to Windows."), { unless: isOff }),
};

/** Of `spec.domain` itself, beside the parts of the machine. */
export const DOMAIN_FIELDS = {
  ioThreads: harmless(
    object("Threads for disks.", {
      supplementalPoolThreadCount: integer("Threads of the shared pool."),
    }),
  ),
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
