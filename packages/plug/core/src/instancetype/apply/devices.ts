// SPDX-License-Identifier: Apache-2.0
// What a preference makes of devices. Source: KubeVirt pkg/instancetype/preference/apply/device.go.
import { inCurrentWords, type PreferenceSpec, type VmiSpec } from "@patchbay/api";
import { withDisksOfVolumes } from "../../spec/disks.ts";
import { ifacesOf, networksOf } from "../../spec/nics.ts";
import { preferredDisk } from "./disks.ts";
import { preferredIface } from "./nics.ts";
import { isUnsaid, said } from "./said.ts";

type Likes = NonNullable<PreferenceSpec["devices"]>;
type Devices = NonNullable<VmiSpec["domain"]["devices"]>;

/** Fields of devices that the preference says where the template does not. */
function unsaidFields(devices: Devices, likes: Likes): Devices {
  const { preferredVideoType } = likes;
  const liked = said({
    autoattachGraphicsDevice: likes.preferredAutoattachGraphicsDevice,
    autoattachInputDevice: likes.preferredAutoattachInputDevice,
    autoattachMemBalloon: likes.preferredAutoattachMemBalloon,
    autoattachPodInterface: likes.preferredAutoattachPodInterface,
    autoattachSerialConsole: likes.preferredAutoattachSerialConsole,
    blockMultiQueue: likes.preferredBlockMultiQueue,
    networkInterfaceMultiqueue: likes.preferredNetworkInterfaceMultiQueue,
    useVirtioTransitional: likes.preferredUseVirtioTransitional,
    rng: likes.preferredRng,
    tpm: likes.preferredTPM,
    ...(isUnsaid(preferredVideoType) ? {} : { video: { type: preferredVideoType } }),
  });
  const disableHotplug = likes.preferredDisableHotplug;
  // Each member is of the type of the field that it stands for.
  return { ...liked, ...devices, ...said({ disableHotplug }) } as Devices;
}

function inputsOf({ inputs }: Devices, likes: Likes): Pick<Devices, "inputs"> {
  if (inputs === undefined) return {};
  const { preferredInputBus: bus = "", preferredInputType: type = "" } = likes;
  return {
    inputs: inputs.map((input) => ({
      ...input,
      ...(isUnsaid(input.bus) && bus !== "" ? { bus } : {}),
      ...(isUnsaid(input.type) && type !== "" ? { type } : {}),
    })),
  };
}

function asObjects(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  // The schema has judged it.
  return Array.isArray(value) ? (value as readonly Readonly<Record<string, unknown>>[]) : [];
}

/** Devices that are not built: whoever likes them is told as if the VM named them. */
function unbuiltDevices(devices: Devices, likes: Likes): Pick<Devices, "panicDevices" | "sound"> {
  const { preferredPanicDeviceModel: panic = "", preferredSoundModel: model = "" } = likes;
  const named = asObjects(devices.panicDevices);
  const panicDevices = named.length === 0 ? [{}] : named;
  const sound = devices.sound as Readonly<Record<string, unknown>> | undefined;
  return {
    ...(panic === ""
      ? {}
      : { panicDevices: panicDevices.map((device) => ({ model: panic, ...device })) }),
    ...(sound === undefined || model === "" ? {} : { sound: { model, ...sound } }),
  };
}

function disksOf(spec: VmiSpec, likes: Likes): Pick<Devices, "disks"> {
  const { domain, volumes = [] } = inCurrentWords(spec);
  const disks = withDisksOfVolumes(domain.devices?.disks ?? [], volumes);
  return disks.length === 0 ? {} : { disks: disks.map((disk) => preferredDisk(disk, likes)) };
}

function nicsOf(spec: VmiSpec, likes: Likes): Pick<Devices, "interfaces"> {
  if (spec.domain.devices?.interfaces === undefined) return {};
  const networks = networksOf(spec);
  return { interfaces: ifacesOf(spec).map((iface) => preferredIface(iface, networks, likes)) };
}

/** Devices as the preference says where the template does not. */
export function preferredDevices(spec: VmiSpec, likes: Likes | undefined): VmiSpec {
  if (likes === undefined) return spec;
  const devices = spec.domain.devices ?? {};
  return {
    ...spec,
    domain: {
      ...spec.domain,
      devices: {
        ...unsaidFields(devices, likes),
        ...inputsOf(devices, likes),
        ...unbuiltDevices(devices, likes),
        ...disksOf(spec, likes),
        ...nicsOf(spec, likes),
      },
    },
  };
}
