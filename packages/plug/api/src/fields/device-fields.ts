// SPDX-License-Identifier: Apache-2.0
// Devices of the guest that are not acted on. Source: KubeVirt api/core/v1 schema.go, type Devices.
import { feature, flag, harmless, list, object, oneOf, text, unbuilt } from "./notation.ts";

const tag = text("Tag in the guest's metadata.");

function claimedDevice(what: string, more: Parameters<typeof object>[1] = {}) {
  return object(
    what,
    {
      name: text("Name of the device."),
      deviceName: text("Resource of the node, for example example.com/gpu."),
      claimName: text("Resource claim of the VM."),
      requestName: text("Request in that claim."),
      tag,
      ...more,
    },
    ["name"],
  );
}

const GPU_OPTIONS = object("How a virtual GPU is shown.", {
  display: feature("A display on it.", { ramFB: feature("A framebuffer before the driver.") }),
});

/** Of `spec.domain.devices`, beside the fields that are acted on. */
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
    list("GPUs of the node.", claimedDevice("One GPU.", { virtualGPUOptions: GPU_OPTIONS })),
  ),
  hostDevices: unbuilt(list("Devices of the node.", claimedDevice("One device."))),
  panicDevices: unbuilt(
    list("Devices that tell of a guest's panic.", object("One device.", { model: text("Model.") })),
  ),
  sound: unbuilt(
    object("A sound card.", { model: text("ich9 or ac97."), name: text("Name.") }, ["name"]),
  ),
  downwardMetrics: unbuilt(object("Metrics of the node for the guest.")),
  clientPassthrough: unbuilt(object("USB devices of a person's own machine.")),
  autoattachMemBalloon: harmless(flag("A memory balloon; the guest has none.")),
  autoattachVSOCK: unbuilt(flag("A VSOCK device."), { unless: oneOf(false) }),
  blockMultiQueue: harmless(flag("Disks get a queue for each vCPU.")),
  disableHotplug: unbuilt(flag("Nothing can be plugged while the guest runs."), {
    unless: oneOf(false),
    hint: "pcieRootPorts: 0 leaves no port",
  }),
  useVirtioTransitional: unbuilt(flag("Devices for drivers of virtio before 1.0."), {
    unless: oneOf(false),
  }),
};

/** Of an iface, beside the fields that are acted on and the bindings. */
export const IFACE_FIELDS = {
  tag: harmless(tag),
};

const USE_BRIDGE = { hint: "use bridge" };

/** Every binding but bridge and those that the cluster registers. Source: KubeVirt InterfaceBindingMethod and PluginBinding. */
export const BINDING_FIELDS = {
  sriov: unbuilt(object("A virtual function of the node's NIC."), USE_BRIDGE),
  passtBinding: unbuilt(object("The pod's address is shared by passt."), {
    hint: "passt cannot run in a launcher, which may make no user namespace; use masquerade",
  }),
  slirp: unbuilt(object("Taken out of KubeVirt."), USE_BRIDGE),
  passt: unbuilt(object("Taken out of KubeVirt; see passtBinding."), USE_BRIDGE),
  macvtap: unbuilt(object("Taken out of KubeVirt."), USE_BRIDGE),
};
