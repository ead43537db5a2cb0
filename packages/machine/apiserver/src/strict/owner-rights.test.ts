// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { AdmissionQuestion } from "../admission/admission.ts";
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import { NODE } from "../kinds/cluster/node.ts";
import { POD } from "../kinds/workload/pod.ts";
import type { KubeObject, OwnerReference } from "../objects/object.ts";
import { checkOwnerRights } from "./owner-rights.ts";

const KINDS = [CONFIG_MAP, NODE];

function owner(change: Partial<OwnerReference> = {}): OwnerReference {
  return { apiVersion: "v1", kind: "ConfigMap", name: "o", uid: "1", ...change };
}

const PLAIN = owner();
const BLOCKING = owner({ blockOwnerDeletion: true });

function ownedBy(...ownerReferences: OwnerReference[]): KubeObject {
  return { apiVersion: "v1", kind: "Pod", metadata: { name: "p", ownerReferences } };
}

/** What was asked about rights, as `verb resource namespace/name`; all are refused but those. */
function check(change: Partial<AdmissionQuestion>, ...held: readonly string[]): readonly string[] {
  const asked: string[] = [];
  const question: AdmissionQuestion = {
    kind: POD,
    subresource: "",
    operation: "CREATE",
    namespace: "ns",
    name: "p",
    object: undefined,
    oldObject: undefined,
    options: {},
    user: { name: "jane", groups: [] },
    dryRun: false,
    warnings: [],
    ...change,
  };
  checkOwnerRights(question, {
    authorizer: {
      authorize: (_user, { verb, resource, subresource, namespace, name }) => {
        const whole = subresource === "" ? resource : `${resource}/${subresource}`;
        const right = `${verb} ${whole} ${namespace}/${name}`;
        asked.push(right);
        return { allowed: held.includes(right), reason: "" };
      },
    },
    registry: { findByKind: (_apiVersion, name) => KINDS.find(({ kind }) => kind === name) },
  });
  return asked;
}

const FINALIZERS = "update configmaps/finalizers ns/o";
const NODE_FINALIZERS = "update nodes/finalizers /n";
const DELETE = "delete pods ns/p";
const BLOCKING_NODE = owner({ kind: "Node", name: "n", uid: "2", blockOwnerDeletion: true });
const UPDATE = { operation: "UPDATE" } as const;

describe("asks for", () => {
  test.each<{ name: string; change: Partial<AdmissionQuestion>; want: readonly string[] }>([
    { name: "nothing for a new object without owners", change: { object: ownedBy() }, want: [] },
    { name: "nothing for a new object with owners", change: { object: ownedBy(PLAIN) }, want: [] },
    {
      name: "the finalizers of owners that a new object lets wait",
      change: { object: ownedBy(BLOCKING, BLOCKING_NODE) },
      want: [FINALIZERS, NODE_FINALIZERS],
    },
    {
      name: "nothing for a change that leaves the owners alone",
      change: { ...UPDATE, oldObject: ownedBy(BLOCKING), object: ownedBy(BLOCKING) },
      want: [],
    },
    {
      name: "deletion for an owner less",
      change: { ...UPDATE, oldObject: ownedBy(BLOCKING), object: ownedBy() },
      want: [DELETE],
    },
    {
      name: "deletion, and finalizers of the owner that is to wait now",
      change: { ...UPDATE, oldObject: ownedBy(PLAIN), object: ownedBy(BLOCKING) },
      want: [DELETE, FINALIZERS],
    },
    {
      name: "nothing of an owner that waits already",
      change: { ...UPDATE, oldObject: ownedBy(BLOCKING), object: ownedBy(BLOCKING, PLAIN) },
      want: [DELETE],
    },
    {
      name: "nothing for the status of a pod",
      change: { ...UPDATE, subresource: "status", oldObject: ownedBy(), object: ownedBy(BLOCKING) },
      want: [],
    },
  ])("$name", ({ change, want }) => {
    expect(check(change, FINALIZERS, NODE_FINALIZERS, DELETE)).toEqual(want);
  });
});

describe("refuses", () => {
  test.each<{ name: string; change: Partial<AdmissionQuestion>; held: string; why: string }>([
    {
      name: "to let an owner wait whose finalizers are others'",
      change: { object: ownedBy(BLOCKING) },
      held: "",
      why: 'pods "p" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to',
    },
    {
      name: "to change owners of what the user may not delete",
      change: { ...UPDATE, oldObject: ownedBy(), object: ownedBy(BLOCKING) },
      held: FINALIZERS,
      why: "cannot set an ownerRef on a resource you can't delete",
    },
    {
      name: "to let something of an unknown kind wait",
      change: { object: ownedBy(owner({ kind: "Ghost", blockOwnerDeletion: true })) },
      held: FINALIZERS,
      why: "because cannot find RESTMapping for APIVersion v1 Kind Ghost",
    },
  ])("$name", ({ change, held, why }) => {
    expect(() => check(change, held)).toThrow(why);
  });
});
