// SPDX-License-Identifier: Apache-2.0
// Which names and addresses an iface may have. Source: KubeVirt pkg/network/admitter/netiface.go.
import { isMulticastMac, MAC_BYTES, normalizeMac, parseMac } from "../values/mac.ts";
import type { Cause } from "../kinds/kubernetes/meta.ts";
import type { Iface } from "../kinds/network.ts";
import { PCI_ADDRESS } from "../values/pci-address.ts";
import { causeIf, findNetworkOf, forEachIface, type JudgedSpec, type Rule } from "./rule.ts";

const NAME = /^[A-Za-z0-9-_]+$/;
/** KubeVirt's, and vmxnet3, which guests from elsewhere have drivers for. Source: KubeVirt pkg/network/admitter/netiface.go. */
const MODELS: readonly string[] = [
  "e1000",
  "e1000e",
  "igb",
  "ne2k_pci",
  "pcnet",
  "rtl8139",
  "virtio",
  "vmxnet3",
];

const oneIfaceEach = forEachIface((iface, path, { ifaces }) => {
  const first = ifaces.find((other) => other.name === iface.name);
  return causeIf(first !== iface, {
    reason: "FieldValueDuplicate",
    field: `${path}.name`,
    message: "Only one interface can be connected to one specific network",
  });
});

const networkIsThere = forEachIface((iface, path, spec) =>
  causeIf(findNetworkOf(spec, iface) === undefined, {
    reason: "FieldValueInvalid",
    field: `${path}.name`,
    message: `${path}.name '${iface.name}' not found. No network is named "${iface.name}": add one to ${spec.base}.networks, or give the interface the name of one`,
  }),
);

const nameIsPlain = forEachIface((iface, path) =>
  causeIf(!NAME.test(iface.name), {
    reason: "FieldValueInvalid",
    field: `${path}.name`,
    message:
      "Network interface name can only contain alphabetical characters, numbers, dashes (-) or underscores (_)",
  }),
);

/** A rule on a text that may be absent; `refusal` is what is said of one that is not taken. */
function textRule(
  field: "model" | "pciAddress",
  isTaken: (text: string) => boolean,
  refusal: { readonly reason: Cause["reason"]; readonly say: (text: string) => string },
): Rule {
  return forEachIface((iface, path) => {
    const text = iface[field] ?? "";
    return causeIf(text !== "" && !isTaken(text), {
      reason: refusal.reason,
      field: `${path}.${field}`,
      message: `interface ${path}.name ${refusal.say(text)}`,
    });
  });
}

const modelIsKnown = textRule("model", (model) => MODELS.includes(model), {
  reason: "FieldValueNotSupported",
  say: (model) => `uses model ${model} that is not supported.`,
});

/** What is wrong with a MAC, or undefined. A group's address is refused too: no device can be made with it. */
function macProblem(text: string): string | undefined {
  const pairs = parseMac(text);
  if (pairs === undefined) return "malformed";
  if (pairs.length > MAC_BYTES) return "too long";
  if (isMulticastMac(pairs)) return "multicast";
  return pairs.every((pair) => pair === "00") ? "all-zero" : undefined;
}

const macIsValid = forEachIface((iface, path): readonly Cause[] => {
  const mac = iface.macAddress ?? "";
  const problem = mac === "" ? undefined : macProblem(mac);
  return causeIf(problem !== undefined, {
    reason: "FieldValueInvalid",
    field: `${path}.macAddress`,
    message: `interface ${path}.name has ${problem ?? ""} MAC address (${mac}).`,
  });
});

function sameSegment(spec: JudgedSpec, one: Iface, other: Iface): boolean {
  const [first, second] = [one, other].map((iface) => findNetworkOf(spec, iface)?.multus);
  return first !== undefined && first.networkName === second?.networkName;
}

/** Two NICs with one MAC on one network never work; KubeVirt lets it pass. */
const macIsUnique = forEachIface((iface, path, spec) => {
  const mac = normalizeMac(iface.macAddress ?? "");
  const before = spec.ifaces.slice(0, spec.ifaces.indexOf(iface));
  const twin = before.find(
    (other) => normalizeMac(other.macAddress ?? "") === mac && sameSegment(spec, iface, other),
  );
  return causeIf(mac !== "" && twin !== undefined, {
    reason: "FieldValueDuplicate",
    field: `${path}.macAddress`,
    message: `interface ${path}.name has the MAC address ${mac} of interface '${twin?.name ?? ""}' on the same network`,
  });
});

const pciAddressIsValid = textRule("pciAddress", (address) => PCI_ADDRESS.test(address), {
  reason: "FieldValueInvalid",
  say: (address) => `has malformed PCI address (${address}).`,
});

/** Judges what an iface is called: name, model, MAC, PCI address. */
export const IFACE_FIELD_RULES: readonly Rule[] = [
  oneIfaceEach,
  networkIsThere,
  nameIsPlain,
  modelIsKnown,
  macIsValid,
  macIsUnique,
  pciAddressIsValid,
];
