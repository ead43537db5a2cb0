// SPDX-License-Identifier: Apache-2.0
// Admission requests for tests.
import {
  networkConfigOf,
  type DataVolume,
  type Iface,
  type Network,
  type NetworkConfig,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import type { AdmissionRequest, Verdict } from "../admission/review.ts";
import { aVm, aVmi } from "./objects.ts";

export const POD: Network = { name: "default", pod: {} };
export const POD_IFACE: Iface = { name: "default", bridge: {} };
export const BLUE: Network = { name: "nic1", multus: { networkName: "blue" } };
export const MAC = "02:00:00:00:00:0a";
/** Binding of a NIC whose network reports no MAC. */
export const SOCKET: Omit<Iface, "name"> = { binding: { name: "socket" } };
export const SOCKET_CONFIG: NetworkConfig = {
  ...networkConfigOf(undefined),
  bindings: { socket: { domainAttachmentType: "vhostuser" } },
};

/** Builds a specification with the pod network's NIC, and with `nic1` if an iface is passed. */
export function specWith(iface: Omit<Iface, "name"> | undefined, network: Network = BLUE): VmiSpec {
  if (iface === undefined) {
    return { domain: { devices: { interfaces: [POD_IFACE] } }, networks: [POD] };
  }
  return {
    domain: { devices: { interfaces: [POD_IFACE, { name: "nic1", ...iface }] } },
    networks: [POD, network],
  };
}

export function vmWith(iface: Omit<Iface, "name"> | undefined, network?: Network): VirtualMachine {
  return aVm({ template: { spec: specWith(iface, network) } });
}

export function vmiWith(
  name: string,
  iface: Omit<Iface, "name"> | undefined,
): VirtualMachineInstance {
  return { ...aVmi(name), spec: specWith(iface) };
}

/** Builds an admission request for a new object, or for an update if `oldObject` is passed. */
export function admissionRequest(
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

export function causesOf(verdict: Verdict): readonly string[] {
  return verdict.allowed ? [] : verdict.causes.map(({ reason, field }) => `${reason} ${field}`);
}
