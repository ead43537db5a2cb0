// SPDX-License-Identifier: Apache-2.0
// Rules for state, binding, name, MAC, model and PCI address of interfaces. Source: KubeVirt
// pkg/network/admitter/admit.go, binding.go, netiface.go.
import { listBindings, type Binding, isDefaultNetwork, type Iface } from "../kinds/network.ts";
import { normalizeMac, isMulticastMac, MAC_BYTES, parseMac } from "../values/mac.ts";
import { findByName, firstByKey, memoize } from "../values/memoize.ts";
import {
  causeIf,
  findIfaceNetwork,
  forEachIface,
  type ValidatedSpec,
  type Rule,
  ifacePath,
} from "./rule.ts";
import type { Cause } from "../kinds/kubernetes/meta.ts";
import { isPciAddress, PCIE_ROOT_PORTS_MAX } from "../values/pci.ts";

const IFACE_STATES: readonly string[] = ["", "up", "down", "absent"];
/** MAC of the bridge in a pod with masquerade. Source: KubeVirt pkg/network/link. */
const RESERVED_MAC = "02:00:00:00:00:00";

/** Bindings that KubeVirt removed; a separate rule rejects them. Source: KubeVirt pkg/network/admitter/discontinued.go. */
export const DISCONTINUED_BINDINGS: readonly Binding[] = ["slirp", "passt", "macvtap"];

/** Lists the interface's bindings, except discontinued bindings. Source: KubeVirt pkg/network/admitter/binding.go. */
function listCurrentBindings(iface: Iface): readonly Binding[] {
  return listBindings(iface).filter((binding) => !DISCONTINUED_BINDINGS.includes(binding));
}

function buildOneBindingMessage(
  { name }: Iface,
  bindings: readonly Binding[],
  isOnDefault: boolean,
): string {
  const bindingsText = `Interface "${name}" has ${bindings.length === 0 ? "none" : bindings.join(" and ")}`;
  if (bindings.length > 0) return `${bindingsText}: keep one of them`;
  return `${bindingsText}: give it one, for example ${isOnDefault ? "masquerade" : "bridge"}: {}`;
}

function isOnDefaultNetwork(spec: ValidatedSpec, iface: Iface): boolean {
  const network = findIfaceNetwork(spec, iface);
  return network !== undefined && isDefaultNetwork(network);
}

const stateIsKnown = forEachIface((iface, path) =>
  causeIf(!IFACE_STATES.includes(iface.state ?? ""), {
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

/** Bindings that support hot-plug. KubeVirt supports only bridge; Patchbay also supports plugins, which the field `binding` names. */
const PLUGGABLE_BINDINGS: readonly Binding[] = ["bridge", "binding"];

const absentNeedsPluggable = forEachIface((iface, path) => {
  const bindings = listCurrentBindings(iface);
  const isPluggable =
    bindings.length === 0 || bindings.some((each) => PLUGGABLE_BINDINGS.includes(each));
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

/** Requires exactly one binding. On a secondary network, an interface without a binding is also valid, because its default is bridge. */
const oneBinding = forEachIface((iface, path, spec) => {
  const bindings = listCurrentBindings(iface);
  const network = findIfaceNetwork(spec, iface);
  const usesDefaultBinding = bindings.length === 0 && network?.multus !== undefined;
  return causeIf(
    bindings.length !== 1 && !(usesDefaultBinding && !isOnDefaultNetwork(spec, iface)),
    {
      reason: "FieldValueInvalid",
      field: path,
      message: `logical ${iface.name} interface must have exactly one binding method or binding plugin. ${buildOneBindingMessage(iface, bindings, isOnDefaultNetwork(spec, iface))}`,
    },
  );
});

/** Rejects masquerade except on the pod's default network. Unlike in KubeVirt, the default network may be a Multus network. */
const masqueradeNeedsPodNetwork = forEachIface((iface, path, spec) => {
  const network = findIfaceNetwork(spec, iface);
  const isOnOtherNetwork = network !== undefined && !isDefaultNetwork(network);
  return causeIf(iface.masquerade !== undefined && isOnOtherNetwork, {
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

export const IFACE_STATE_RULES: readonly Rule[] = [
  stateIsKnown,
  linkStateNeedsTap,
  absentNeedsPluggable,
  absentNeedsSecondary,
  oneBinding,
  masqueradeNeedsPodNetwork,
  masqueradeMacIsFree,
];

const NAME_SYNTAX = /^[A-Za-z0-9-_]+$/;
/** Device models of KubeVirt, and vmxnet3 for guests from VMware. Source: KubeVirt pkg/network/admitter/netiface.go. */
const DEVICE_MODELS: readonly string[] = [
  "e1000",
  "e1000e",
  "igb",
  "ne2k_pci",
  "pcnet",
  "rtl8139",
  "virtio",
  "vmxnet3",
];

const networkHasOneIface = forEachIface((iface, path, { ifaces }) => {
  const first = findByName(ifaces, iface.name);
  return causeIf(first !== iface, {
    reason: "FieldValueDuplicate",
    field: `${path}.name`,
    message: "Only one interface can be connected to one specific network",
  });
});

const networkExists = forEachIface((iface, path, spec) =>
  causeIf(findIfaceNetwork(spec, iface) === undefined, {
    reason: "FieldValueInvalid",
    field: `${path}.name`,
    message: `${path}.name '${iface.name}' not found. No network is named "${iface.name}": add one to ${spec.base}.networks, or give the interface the name of one`,
  }),
);

const nameIsPlain = forEachIface((iface, path) =>
  causeIf(!NAME_SYNTAX.test(iface.name), {
    reason: "FieldValueInvalid",
    field: `${path}.name`,
    message:
      "Network interface name can only contain alphabetical characters, numbers, dashes (-) or underscores (_)",
  }),
);

function buildTextRule(
  field: "model" | "pciAddress",
  isValid: (text: string) => boolean,
  refusal: { readonly reason: Cause["reason"]; readonly message: (text: string) => string },
): Rule {
  return forEachIface((iface, path) => {
    const text = iface[field] ?? "";
    return causeIf(text !== "" && !isValid(text), {
      reason: refusal.reason,
      field: `${path}.${field}`,
      message: `interface ${path}.name ${refusal.message(text)}`,
    });
  });
}

const modelIsKnown = buildTextRule("model", (model) => DEVICE_MODELS.includes(model), {
  reason: "FieldValueNotSupported",
  message: (model) => `uses model ${model} that is not supported.`,
});

function describeMacProblem(text: string): string | undefined {
  const pairs = parseMac(text);
  if (pairs === undefined) return "malformed";
  if (pairs.length > MAC_BYTES) return "too long";
  if (isMulticastMac(pairs)) return "multicast";
  return pairs.every((pair) => pair === "00") ? "all-zero" : undefined;
}

const macIsValid = forEachIface((iface, path): readonly Cause[] => {
  const mac = iface.macAddress ?? "";
  const problem = mac === "" ? undefined : describeMacProblem(mac);
  return causeIf(problem !== undefined, {
    reason: "FieldValueInvalid",
    field: `${path}.macAddress`,
    message: `interface ${path}.name has ${problem ?? ""} MAC address (${mac}).`,
  });
});

function findMacKey(spec: ValidatedSpec, iface: Iface): string | undefined {
  const mac = normalizeMac(iface.macAddress ?? "");
  const multus = findIfaceNetwork(spec, iface)?.multus;
  return mac === "" || multus === undefined ? undefined : `${mac} ${multus.networkName}`;
}

const ifaceByMac = memoize((spec: ValidatedSpec) =>
  firstByKey(spec.ifaces, (iface) => findMacKey(spec, iface)),
);

/** Rejects equal MACs on one network, because frames to such a MAC reach only one of the NICs. KubeVirt accepts equal MACs. */
const macIsUnique = forEachIface((iface, path, spec) => {
  const key = findMacKey(spec, iface);
  const first = ifaceByMac(spec).get(key);
  return causeIf(key !== undefined && first !== iface, {
    reason: "FieldValueDuplicate",
    field: `${path}.macAddress`,
    message: `interface ${path}.name has the MAC address ${normalizeMac(iface.macAddress ?? "")} of interface '${first?.name ?? ""}' on the same network`,
  });
});

const pciAddressIsValid = buildTextRule("pciAddress", isPciAddress, {
  reason: "FieldValueInvalid",
  message: (address) => `has malformed PCI address (${address}).`,
});

export const IFACE_FIELD_RULES: readonly Rule[] = [
  networkHasOneIface,
  networkExists,
  nameIsPlain,
  modelIsKnown,
  macIsValid,
  macIsUnique,
  pciAddressIsValid,
];

const portsInBounds: Rule = ({ devices, base }) => {
  const ports = devices.pcieRootPorts ?? 0;
  return causeIf(!Number.isInteger(ports) || ports < 0 || ports > PCIE_ROOT_PORTS_MAX, {
    reason: "FieldValueInvalid",
    field: `${base}.domain.devices.pcieRootPorts`,
    message: `must be between 0 and ${String(PCIE_ROOT_PORTS_MAX)}, inclusive`,
  });
};

/** Rejects PCIe root ports on machine type i440fx, whose PCI bus has a fixed number of slots. */
const portsNeedQ35: Rule = ({ devices, machine, base }) =>
  causeIf(
    devices.pcieRootPorts !== undefined &&
      machine.startsWith("pc") &&
      !machine.startsWith("pc-q35"),
    {
      reason: "FieldValueForbidden",
      field: `${base}.domain.devices.pcieRootPorts`,
      message: `machine type ${machine} has no PCIe ports; any of the 30 devices of its bus can be plugged while the VM runs`,
    },
  );

const ifaceByAcpiIndex = memoize(({ ifaces }: ValidatedSpec) =>
  firstByKey(ifaces, ({ acpiIndex }) => acpiIndex),
);

const acpiIndexIsUnique = forEachIface((iface, path, spec) => {
  const { acpiIndex } = iface;
  const first = ifaceByAcpiIndex(spec).get(acpiIndex);
  return causeIf(acpiIndex !== undefined && first !== iface, {
    reason: "FieldValueDuplicate",
    field: `${path}.acpiIndex`,
    message: `acpiIndex ${String(acpiIndex)} is also that of interface '${first?.name ?? ""}'`,
  });
});

/** Largest index that systemd uses in interface names. Source: systemd udev-builtin-net_id.c ONBOARD_14BIT_INDEX_MAX */
const ACPI_INDEX_MAX = 16_383;

const acpiIndexInBounds: Rule = ({ ifaces, base }) =>
  ifaces.flatMap(({ acpiIndex = 1 }, index) =>
    causeIf(acpiIndex < 1 || acpiIndex > ACPI_INDEX_MAX, {
      reason: "FieldValueInvalid",
      field: `${ifacePath(base, index)}.acpiIndex`,
      message: `must be between 1 and ${String(ACPI_INDEX_MAX)}, inclusive`,
    }),
  );

export const DEVICE_RULES: readonly Rule[] = [
  portsInBounds,
  portsNeedQ35,
  acpiIndexIsUnique,
  acpiIndexInBounds,
];
