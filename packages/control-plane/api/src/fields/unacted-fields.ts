// SPDX-License-Identifier: Apache-2.0
// Fields of KubeVirt that Patchbay stores but does not implement. Source: KubeVirt api/core/v1 schema.go, types.go.
import {
  feature,
  flag,
  harmless,
  list,
  object,
  oneOf,
  text,
  unbuilt,
  anything,
  integer,
  isFeatureOff,
  quantity,
  type JsonSchema,
  reference,
} from "./notation.ts";

const tag = text("Tag in the guest's metadata.");

function buildClaimedDevice(description: string, properties: Parameters<typeof object>[1] = {}) {
  return object(
    description,
    {
      name: text("Name of the device."),
      deviceName: text("Resource of the node, for example example.com/gpu."),
      claimName: text("Resource claim of the VM."),
      requestName: text("Request in that claim."),
      tag,
      ...properties,
    },
    ["name"],
  );
}

const GPU_OPTIONS = object("How a virtual GPU is shown.", {
  display: feature("A display on it.", { ramFB: feature("A framebuffer before the driver.") }),
});

export const DEVICE_FIELDS = {
  filesystems: unbuilt(
    list(
      "Directories shared with the guest.",
      object(
        "One directory.",
        { name: text("Name of its volume."), virtiofs: object("Shared by virtiofs.") },
        ["name", "virtiofs"],
      ),
    ),
  ),
  gpus: unbuilt(
    list("GPUs of the node.", buildClaimedDevice("One GPU.", { virtualGPUOptions: GPU_OPTIONS })),
  ),
  hostDevices: unbuilt(list("Devices of the node.", buildClaimedDevice("One device."))),
  panicDevices: unbuilt(
    list("Devices that tell of a guest's panic.", object("One device.", { model: text("Model.") })),
  ),
  sound: unbuilt(
    object("A sound card.", { model: text("ich9 or ac97."), name: text("Name.") }, ["name"]),
  ),
  downwardMetrics: unbuilt(object("Metrics of the node for the guest.")),
  clientPassthrough: unbuilt(object("USB devices of a person's own machine.")),
  autoattachMemBalloon: harmless(flag("A memory balloon; the guest has none.")),
  autoattachVSOCK: unbuilt(flag("A VSOCK device."), { isDefault: oneOf(false) }),
  blockMultiQueue: harmless(flag("Disks get a queue for each vCPU.")),
  disableHotplug: unbuilt(flag("Nothing can be plugged while the guest runs."), {
    isDefault: oneOf(false),
    hint: "pcieRootPorts: 0 leaves no port",
  }),
  useVirtioTransitional: unbuilt(flag("Devices for drivers of virtio before 1.0."), {
    isDefault: oneOf(false),
  }),
};

export const IFACE_FIELDS = {
  tag: harmless(tag),
};

const USE_BRIDGE = { hint: "use bridge" };

/** Unsupported bindings of an interface. Source: KubeVirt InterfaceBindingMethod and PluginBinding. */
export const BINDING_FIELDS = {
  sriov: unbuilt(object("A virtual function of the node's NIC."), USE_BRIDGE),
  passtBinding: unbuilt(object("The pod's address is shared by passt."), {
    hint: "passt cannot run in a launcher, which may make no user namespace; use masquerade",
  }),
  slirp: unbuilt(object("Taken out of KubeVirt."), USE_BRIDGE),
  passt: unbuilt(object("Taken out of KubeVirt; see passtBinding."), USE_BRIDGE),
  macvtap: unbuilt(object("Taken out of KubeVirt."), USE_BRIDGE),
};

export const CPU_FIELDS = {
  dedicatedCpuPlacement: unbuilt(flag("Each vCPU has a processor of the node for itself."), {
    isDefault: oneOf(false),
  }),
  isolateEmulatorThread: unbuilt(flag("One more processor for the emulator's own work."), {
    isDefault: oneOf(false),
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
  spinlocks: feature("Spinlocks that notify the hypervisor.", {
    spinlocks: integer("Tries before a notification."),
  }),
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

export const UNSUPPORTED_FEATURES = {
  hyperv: unbuilt(object("What Windows expects of a hypervisor.", HYPERV)),
  hypervPassthrough: unbuilt(feature("All that KVM offers to Windows."), {
    isDefault: isFeatureOff,
  }),
};

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
    isDefault: oneOf("", "Reboot"),
  }),
};

const agentUsers = object(
  "Set by the guest's agent.",
  { users: list("Users that get them.", text("Name of a user.")) },
  ["users"],
);

function buildSecretSource(description: string): JsonSchema {
  return object(description, {
    secret: object("A Secret.", { secretName: text("Name of the Secret.") }, ["secretName"]),
  });
}

const CREDENTIAL = object("One credential.", {
  sshPublicKey: object(
    "SSH keys.",
    {
      source: buildSecretSource("Where the keys are."),
      propagationMethod: object("How they get into the guest.", {
        configDrive: object("By cloud-init's config drive."),
        noCloud: object("By cloud-init's NoCloud."),
        qemuGuestAgent: agentUsers,
      }),
    },
    ["source", "propagationMethod"],
  ),
  userPassword: object(
    "Passwords.",
    {
      source: buildSecretSource("Where the passwords are."),
      propagationMethod: object("How they get into the guest.", {
        qemuGuestAgent: object("Set by the guest's agent."),
      }),
    },
    ["source", "propagationMethod"],
  ),
});

export const POD_FIELDS = {
  accessCredentials: unbuilt(list("Keys and passwords for the guest.", CREDENTIAL)),
  architecture: unbuilt(text("Processor architecture of the guest."), {
    isDefault: oneOf("", "amd64"),
  }),
  serviceAccountName: harmless(text("Account of the pod; the launcher has none.")),
};

export const UNACTED_VM_FIELDS = {
  updateVolumesStrategy: harmless(text("How changed volumes are taken over.")),
};

export const TEMPLATE_METADATA_FIELDS = {
  name: harmless(text("Not used: a VMI has the name of its VM.")),
  generateName: harmless(text("Not used: a VMI has the name of its VM.")),
  namespace: harmless(text("Not used: a VMI is in the namespace of its VM.")),
  creationTimestamp: harmless({ ...text("Not used."), nullable: true }),
  finalizers: harmless(list("Not used.", text("A finalizer."))),
  uid: harmless(text("Not used.")),
  resourceVersion: harmless(text("Not used.")),
  generation: harmless(integer("Not used.")),
  managedFields: harmless(list("Not used.", anything("One manager."))),
  ownerReferences: harmless(list("Not used.", anything("One owner."))),
  deletionTimestamp: harmless({ ...text("Not used."), nullable: true }),
  selfLink: harmless(text("Not used.")),
};

const claimName = text("Name of the claim, in the VM's namespace.");
const readOnly = flag("It is mounted read-only.");

export const UNSUPPORTED_VOLUME_FIELDS = {
  containerPath: unbuilt(
    object("A path of the launcher.", { path: text("Path."), readOnly }, ["path"]),
  ),
  downwardMetrics: unbuilt(object("Metrics of the node for the guest.")),
  memoryDump: unbuilt(
    object(
      "A dump of the guest's memory.",
      { claimName, readOnly, hotpluggable: flag("It can be unplugged while the guest runs.") },
      ["claimName"],
    ),
  ),
  serviceAccount: unbuilt(
    object("A service account's token.", { serviceAccountName: text("Name of the account.") }),
  ),
  sysprep: unbuilt(
    object("Answers for the setup of Windows.", {
      configMap: reference("ConfigMap with the answers."),
      secret: reference("Secret with the answers."),
    }),
  ),
};

export const UTILITY_VOLUME_FIELDS = {
  utilityVolumes: harmless(
    list(
      "Volumes of the launcher that the guest does not see.",
      object(
        "One volume.",
        {
          name: text("Name of the volume."),
          claimName,
          readOnly,
          type: text("What it is for."),
        },
        ["name", "claimName"],
      ),
    ),
  ),
};
