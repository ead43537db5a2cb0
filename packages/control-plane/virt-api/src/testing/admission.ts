// SPDX-License-Identifier: Apache-2.0
// What tests of admission ask, and of whom.
import type {
  DataVolume,
  Iface,
  Network,
  VirtualMachine,
  VirtualMachineInstance,
  VmiSpec,
} from "@patchbay/api";
import type { AdmissionRequest, Verdict } from "../admission/review.ts";
import { aVm, aVmi } from "./objects.ts";

/** The pod's network. */
export const POD: Network = { name: "default", pod: {} };
/** The NIC on it. */
export const POD_IFACE: Iface = { name: "default", bridge: {} };
/** A secondary network. */
export const BLUE: Network = { name: "nic1", multus: { networkName: "blue" } };
/** A MAC. */
export const MAC = "02:00:00:00:00:0a";

/** A specification with the pod's NIC, and `nic1` where an iface is given. */
export function specWith(iface: Omit<Iface, "name"> | undefined, network: Network = BLUE): VmiSpec {
  if (iface === undefined) {
    return { domain: { devices: { interfaces: [POD_IFACE] } }, networks: [POD] };
  }
  return {
    domain: { devices: { interfaces: [POD_IFACE, { name: "nic1", ...iface }] } },
    networks: [POD, network],
  };
}

/** A VM of such a specification. */
export function vmWith(iface: Omit<Iface, "name"> | undefined, network?: Network): VirtualMachine {
  return aVm({ template: { spec: specWith(iface, network) } });
}

/** A VMI of such a specification. */
export function vmiWith(
  name: string,
  iface: Omit<Iface, "name"> | undefined,
): VirtualMachineInstance {
  return { ...aVmi(name), spec: specWith(iface) };
}

/** The question about an object that is created, or takes the place of an older one. */
export function asked(
  object: VirtualMachine | VirtualMachineInstance | DataVolume,
  oldObject?: VirtualMachine | VirtualMachineInstance | DataVolume,
  userName = "alice",
): AdmissionRequest {
  const operation = oldObject === undefined ? "CREATE" : "UPDATE";
  const user = { name: userName, groups: ["shared"] };
  return {
    uid: "1",
    kind: object.kind,
    operation,
    subresource: "",
    namespace: "ns",
    name: object.metadata.name,
    user,
    object,
    oldObject,
  };
}

/** Reason and field of each cause. */
export function causesOf(verdict: Verdict): readonly string[] {
  return verdict.allowed ? [] : verdict.causes.map(({ reason, field }) => `${reason} ${field}`);
}
