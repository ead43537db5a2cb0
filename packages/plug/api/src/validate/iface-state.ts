// SPDX-License-Identifier: Apache-2.0
// Which states and bindings an iface may have. Source: KubeVirt pkg/network/admitter/admit.go, binding.go.
import { bindingsOf, type Binding } from "../kinds/binding.ts";
import { isDefaultNetwork, type Iface } from "../kinds/network.ts";
import { normalizeMac } from "../values/mac.ts";
import { causeIf, findNetworkOf, forEachIface, type JudgedSpec, type Rule } from "./rule.ts";

const STATES: readonly string[] = ["", "up", "down", "absent"];
/** MAC of the bridge in a pod with masquerade. Source: KubeVirt pkg/network/link. */
const RESERVED_MAC = "02:00:00:00:00:00";

/** Bindings that KubeVirt took out; they have a rule of their own. Source: KubeVirt pkg/network/admitter/discontinued.go. */
export const DISCONTINUED: readonly Binding[] = ["slirp", "passt", "macvtap"];

/** Bindings of which an iface has exactly one. Source: KubeVirt pkg/network/admitter/binding.go. */
function currentBindings(iface: Iface): readonly Binding[] {
  return bindingsOf(iface).filter((binding) => !DISCONTINUED.includes(binding));
}

/** What to do about an iface that has none of them, or several. */
function sayOneBinding({ name }: Iface, bindings: readonly Binding[], onPod: boolean): string {
  const has = `Interface "${name}" has ${bindings.length === 0 ? "none" : bindings.join(" and ")}`;
  if (bindings.length > 0) return `${has}: keep one of them`;
  return `${has}: give it one, for example ${onPod ? "masquerade" : "bridge"}: {}`;
}

function isOnDefaultNetwork(spec: JudgedSpec, iface: Iface): boolean {
  const network = findNetworkOf(spec, iface);
  return network !== undefined && isDefaultNetwork(network);
}

const stateIsKnown = forEachIface((iface, path) =>
  causeIf(!STATES.includes(iface.state ?? ""), {
    reason: "FieldValueInvalid",
    field: `${path}.state`,
    message: `logical ${iface.name} interface state value is unsupported: ${iface.state ?? ""}`,
  }),
);

const linkStateNeedsTap = forEachIface((iface, path) =>
  causeIf(iface.sriov !== undefined && (iface.state === "up" || iface.state === "down"), {
    reason: "FieldValueInvalid",
    field: `${path}.state`,
    message: `"${iface.name}" interface's state "${iface.state ?? ""}" is not supported for SR-IOV NICs`,
  }),
);

/** Those that a NIC can have which comes and goes. KubeVirt has only the first. */
const PLUGGABLE: readonly Binding[] = ["bridge", "binding"];

const absentNeedsPluggable = forEachIface((iface, path) => {
  const bindings = currentBindings(iface);
  const isPluggable = bindings.length === 0 || bindings.some((each) => PLUGGABLE.includes(each));
  return causeIf(iface.state === "absent" && !isPluggable, {
    reason: "FieldValueInvalid",
    field: `${path}.state`,
    message: `"${iface.name}" interface's state "absent" is supported only for bridge binding`,
  });
});

const absentNeedsSecondary = forEachIface((iface, path, spec) =>
  causeIf(iface.state === "absent" && isOnDefaultNetwork(spec, iface), {
    reason: "FieldValueInvalid",
    field: `${path}.state`,
    message: `"${iface.name}" interface's state "absent" is not supported on default networks`,
  }),
);

/** No binding on a secondary network means bridge, which the defaults fill in. */
const oneBinding = forEachIface((iface, path, spec) => {
  const bindings = currentBindings(iface);
  const network = findNetworkOf(spec, iface);
  const defaulted = bindings.length === 0 && network?.multus !== undefined;
  return causeIf(bindings.length !== 1 && !(defaulted && !isOnDefaultNetwork(spec, iface)), {
    reason: "FieldValueInvalid",
    field: path,
    message: `logical ${iface.name} interface must have exactly one binding method or binding plugin. ${sayOneBinding(iface, bindings, network?.pod !== undefined)}`,
  });
});

const masqueradeNeedsPodNetwork = forEachIface((iface, path, spec) => {
  const network = findNetworkOf(spec, iface);
  const elsewhere = network !== undefined && network.pod === undefined;
  return causeIf(iface.masquerade !== undefined && elsewhere, {
    reason: "FieldValueInvalid",
    field: `${path}.name`,
    message: "Masquerade interface only implemented with pod network",
  });
});

const masqueradeMacIsFree = forEachIface((iface, path) =>
  causeIf(iface.masquerade !== undefined && normalizeMac(iface.macAddress ?? "") === RESERVED_MAC, {
    reason: "FieldValueInvalid",
    field: `${path}.macAddress`,
    message:
      "The requested MAC address is reserved for the in-pod bridge. Please choose another one.",
  }),
);

/** Judges states and bindings, against the network that the iface joins. */
export const IFACE_STATE_RULES: readonly Rule[] = [
  stateIsKnown,
  linkStateNeedsTap,
  absentNeedsPluggable,
  absentNeedsSecondary,
  oneBinding,
  masqueradeNeedsPodNetwork,
  masqueradeMacIsFree,
];
