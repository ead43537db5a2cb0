// SPDX-License-Identifier: Apache-2.0
// What a preference makes of a template: what the template says stands. Source: KubeVirt
// pkg/instancetype/preference/apply.
import { isJsonObject, type PreferenceSpec, type VmiSpec } from "@patchbay/api";
import { findByName } from "../../spec/nics.ts";
import { preferredDevices } from "./devices.ts";
import type { Template } from "./instancetype.ts";
import { isUnsaid, said } from "./said.ts";

type Domain = VmiSpec["domain"];
type Firmware = NonNullable<Domain["firmware"]>;
type Bootloader = NonNullable<Firmware["bootloader"]>;

function cpuOf({ cpu }: Domain, likes: PreferenceSpec): Pick<Domain, "cpu"> {
  const liked = likes.cpu?.preferredCPUFeatures ?? [];
  if (liked.length === 0) return {};
  const own = cpu?.features ?? [];
  const more = liked.filter(({ name }) => findByName(own, name) === undefined);
  return { cpu: { ...cpu, features: [...own, ...more] } };
}

/** ACPI is taken over whatever the template says, as KubeVirt does. */
function featuresOf({ features }: Domain, likes: PreferenceSpec): Pick<Domain, "features"> {
  if (likes.features === undefined) return {};
  const { preferredAcpi, preferredApic, preferredKvm } = likes.features;
  const { preferredPvspinlock, preferredSmm, preferredHyperv } = likes.features;
  const passthrough = features?.hypervPassthrough;
  const isPassedThrough = isJsonObject(passthrough) && passthrough["enabled"] === true;
  const hyperv = isJsonObject(preferredHyperv)
    ? { ...preferredHyperv, ...(features?.hyperv as object | undefined) }
    : undefined;
  return {
    features: {
      ...said({ apic: preferredApic, kvm: preferredKvm }),
      ...said({ pvspinlock: preferredPvspinlock, smm: preferredSmm }),
      ...features,
      ...said({ acpi: preferredAcpi }),
      ...(isPassedThrough ? {} : said({ hyperv })),
    },
  };
}

function efiOf(likes: NonNullable<PreferenceSpec["firmware"]>): Bootloader["efi"] {
  if (likes.preferredEfi !== undefined) return likes.preferredEfi;
  if (likes.preferredUseEfi !== true) return undefined;
  return said({ secureBoot: likes.preferredUseSecureBoot });
}

function bootloaderOf(own: Bootloader, likes: NonNullable<PreferenceSpec["firmware"]>): Bootloader {
  const serial = said({ useSerial: likes.preferredUseBiosSerial });
  if (own.bios !== undefined) return { ...own, bios: { ...serial, ...own.bios } };
  if (own.efi !== undefined) {
    const secure = likes.preferredEfi === undefined ? likes.preferredUseSecureBoot : undefined;
    return { ...own, efi: { ...said({ secureBoot: secure }), ...own.efi } };
  }
  if (likes.preferredUseBios === true) return { ...own, bios: serial };
  return { ...own, ...said({ efi: efiOf(likes) }) };
}

function firmwareOf({ firmware }: Domain, likes: PreferenceSpec): Pick<Domain, "firmware"> {
  if (likes.firmware === undefined) return {};
  const own = firmware?.bootloader ?? {};
  const bootloader = bootloaderOf(own, likes.firmware);
  return Object.keys(bootloader).length === 0 ? {} : { firmware: { ...firmware, bootloader } };
}

function machineOf({ machine }: Domain, likes: PreferenceSpec): Pick<Domain, "machine"> {
  const type = likes.machine?.preferredMachineType ?? "";
  return type === "" || !isUnsaid(machine?.type) ? {} : { machine: { ...machine, type } };
}

/** What the clock shows is one thing: half of it is not replaced. */
function clockOf({ clock }: Domain, likes: PreferenceSpec): Pick<Domain, "clock"> {
  if (likes.clock === undefined) return {};
  const { preferredClockOffset = {}, preferredTimer } = likes.clock;
  const isOpen = clock?.utc === undefined && clock?.timezone === undefined;
  return {
    clock: {
      ...said({ timer: preferredTimer }),
      ...clock,
      ...(isOpen ? preferredClockOffset : {}),
    },
  };
}

function domainOf(domain: Domain, likes: PreferenceSpec): Domain {
  return {
    ...domain,
    ...cpuOf(domain, likes),
    ...featuresOf(domain, likes),
    ...firmwareOf(domain, likes),
    ...machineOf(domain, likes),
    ...clockOf(domain, likes),
  };
}

function aroundGuest(spec: VmiSpec, likes: PreferenceSpec): Partial<VmiSpec> {
  const { preferredSubdomain = "", preferredArchitecture = "" } = likes;
  const grace = spec.terminationGracePeriodSeconds ?? likes.preferredTerminationGracePeriodSeconds;
  return {
    ...said({ terminationGracePeriodSeconds: grace }),
    ...(preferredSubdomain !== "" && isUnsaid(spec.subdomain)
      ? { subdomain: preferredSubdomain }
      : {}),
    ...(preferredArchitecture !== "" && isUnsaid(spec.architecture)
      ? { architecture: preferredArchitecture }
      : {}),
  };
}

/** The template with what the preference says where the template does not. */
export function withPreference(template: Template, likes: PreferenceSpec): Template {
  const spec = preferredDevices(template.spec, likes.devices);
  const annotations = { ...likes.annotations, ...template.metadata?.annotations };
  const metadata =
    likes.annotations === undefined ? template.metadata : { ...template.metadata, annotations };
  return {
    ...template,
    ...said({ metadata }),
    spec: { ...spec, ...aroundGuest(spec, likes), domain: domainOf(spec.domain, likes) },
  };
}
