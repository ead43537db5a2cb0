// SPDX-License-Identifier: Apache-2.0
import { invalidValue } from "../../meta/causes.ts";
import type { Cause } from "../../meta/status.ts";
import { asList, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Column, type Kind, defineKind } from "../kind.ts";

const ROLE_PREFIX = "node-role.kubernetes.io/";

function readyCell(node: KubeObject): string {
  const readyCondition = asList(valueAt(node, "status", "conditions")).find(
    (condition) => textAt(condition, "type") === "Ready",
  );
  const readiness = textAt(readyCondition, "status") === "True" ? "Ready" : "NotReady";
  const state = readyCondition === undefined ? "Unknown" : readiness;
  return valueAt(node, "spec", "unschedulable") === true ? `${state},SchedulingDisabled` : state;
}

function rolesCell(node: KubeObject): string {
  const roles = Object.keys(node.metadata.labels ?? {})
    .filter((label) => label.startsWith(ROLE_PREFIX))
    .map((label) => label.slice(ROLE_PREFIX.length))
    .sort();
  return roles.length === 0 ? "<none>" : roles.join(",");
}

function addressCell(node: KubeObject, type: string): string {
  const address = asList(valueAt(node, "status", "addresses")).find(
    (candidate) => textAt(candidate, "type") === type,
  );
  return textAt(address, "address") || "<none>";
}

function infoColumn(name: string, key: string): Column {
  const cell = (node: KubeObject) => textAt(node, "status", "nodeInfo", key) || "<unknown>";
  return { name, type: "string", priority: 1, cell };
}

export const NODE: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "nodes",
  kind: "Node",
  namespaced: false,
  shortNames: ["no"],
  strategy: {
    hasStatus: true,
    acceptsStatusOnCreate: true,
    selectableFields: {
      "spec.unschedulable": (node) => String(valueAt(node, "spec", "unschedulable") === true),
    },
    columns: [
      { name: "Status", type: "string", cell: readyCell },
      { name: "Roles", type: "string", cell: rolesCell },
      AGE,
      {
        name: "Version",
        type: "string",
        cell: (node) => textAt(node, "status", "nodeInfo", "kubeletVersion"),
      },
      {
        name: "Internal-IP",
        type: "string",
        priority: 1,
        cell: (node) => addressCell(node, "InternalIP"),
      },
      {
        name: "External-IP",
        type: "string",
        priority: 1,
        cell: (node) => addressCell(node, "ExternalIP"),
      },
      infoColumn("OS-Image", "osImage"),
      infoColumn("Kernel-Version", "kernelVersion"),
      infoColumn("Container-Runtime", "containerRuntimeVersion"),
    ],
  },
});

function validateLease(lease: KubeObject): Cause[] {
  const seconds = valueAt(lease, "spec", "leaseDurationSeconds");
  return typeof seconds === "number" && seconds <= 0
    ? [invalidValue("spec.leaseDurationSeconds", seconds, "must be greater than 0")]
    : [];
}

export const LEASE: Kind = defineKind({
  group: "coordination.k8s.io",
  version: "v1",
  resource: "leases",
  kind: "Lease",
  strategy: {
    allowsUnconditionalUpdate: false,
    allowsCreateOnUpdate: true,
    validate: validateLease,
    columns: [
      { name: "Holder", type: "string", cell: (lease) => textAt(lease, "spec", "holderIdentity") },
      AGE,
    ],
  },
});
