// SPDX-License-Identifier: Apache-2.0
// Rules for networks. Source: KubeVirt pkg/network/admitter/netsource.go, netiface.go.
import type { Cause } from "../kinds/kubernetes/meta.ts";
import { findByName } from "../values/memoize.ts";
import { parseNadName } from "../values/name-syntax.ts";
import { causeIf, forEachNetwork, networkPath, type Rule } from "./rule.ts";

const onePodNetwork: Rule = ({ networks, base }) =>
  causeIf(networks.filter((network) => network.pod !== undefined).length > 1, {
    reason: "FieldValueDuplicate",
    field: `${base}.interfaces`,
    message: `more than one interface is connected to a pod network in ${base}.interfaces`,
  });

const oneMultusDefault: Rule = ({ networks, base }) =>
  causeIf(networks.filter((network) => network.multus?.default === true).length > 1, {
    reason: "FieldValueInvalid",
    field: `${base}.networks`,
    message: "Multus CNI should only have one default network",
  });

const podOrMultusDefault: Rule = ({ networks, base }) =>
  causeIf(
    networks.some((network) => network.pod !== undefined) &&
      networks.some((network) => network.multus?.default === true),
    {
      reason: "FieldValueInvalid",
      field: `${base}.networks`,
      message: "Pod network cannot be defined when Multus default network is defined",
    },
  );

const oneSource = forEachNetwork((network, path) => {
  const sources = [network.pod, network.multus, network.resourceClaim];
  const sourceCount = sources.filter((source) => source !== undefined).length;
  return causeIf(sourceCount !== 1, {
    reason: "FieldValueRequired",
    field: path,
    message: sourceCount === 0 ? "should have a network type" : "should have only one network type",
  });
});

/** Reports the first network with an empty networkName, like KubeVirt. */
const multusHasName: Rule = ({ networks, base }) => {
  const index = networks.findIndex((network) => network.multus?.networkName === "");
  return causeIf(index !== -1, {
    reason: "FieldValueRequired",
    field: networkPath(base, index),
    message: "CNI delegating plugin must have a networkName",
  });
};

const nadNameIsValid = forEachNetwork((network, path): readonly Cause[] => {
  const name = network.multus?.networkName ?? "";
  return causeIf(name !== "" && parseNadName(name) === undefined, {
    reason: "FieldValueInvalid",
    field: `${path}.multus.networkName`,
    message: `networkName "${name}" must be NAME or NAMESPACE/NAME of a NetworkAttachmentDefinition`,
  });
});

export const NETWORK_SOURCE_RULES: readonly Rule[] = [
  onePodNetwork,
  oneMultusDefault,
  podOrMultusDefault,
  oneSource,
  multusHasName,
  nadNameIsValid,
];

const nameIsUnique = forEachNetwork((network, path, { networks }) => {
  return causeIf(findByName(networks, network.name) !== network, {
    reason: "FieldValueDuplicate",
    field: `${path}.name`,
    message: `Network with name "${network.name}" already exists, every network must have a unique name`,
  });
});

const networkIsUsed = forEachNetwork((network, path, { ifaces, base }) =>
  causeIf(findByName(ifaces, network.name) === undefined, {
    reason: "FieldValueRequired",
    field: `${path}.name`,
    message: `${path}.name '${network.name}' not found. No interface is named "${network.name}": add one to ${base}.domain.devices.interfaces, or remove the network`,
  }),
);

export const NETWORK_NAME_RULES: readonly Rule[] = [nameIsUnique, networkIsUsed];
