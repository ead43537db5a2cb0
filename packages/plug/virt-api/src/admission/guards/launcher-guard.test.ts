// SPDX-License-Identifier: Apache-2.0
// May a pod be written so?
import { names, type ObjectMeta } from "@patchbay/api";
import { createFakeStore } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import { depsOn } from "../../testing/deps.ts";
import { validate } from "../validate.ts";

type Words = Pick<ObjectMeta, "labels" | "annotations">;

const STATUS = { [names.NETWORK_STATUS_ANNOTATION]: "[]" };
const ERRORS = { [names.ATTACHMENT_ERRORS_ANNOTATION]: "{}" };
const LAUNCHER: Words = {
  labels: { [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE },
  annotations: { ...STATUS, ...ERRORS },
};

function judge(before: Words | undefined, after: Words) {
  const podOf = (words: Words): object => ({ kind: "Pod", metadata: { name: "p", ...words } });
  return validate(depsOn(createFakeStore()), {
    uid: "1",
    kind: "Pod",
    operation: before === undefined ? "CREATE" : "UPDATE",
    subresource: "",
    namespace: "ns",
    name: "p",
    user: { name: "alice", groups: [] },
    object: podOf(after),
    oldObject: before === undefined ? null : podOf(before),
  });
}

test.each<{ name: string; before: Words | undefined; after: Words }>([
  { name: "a new pod", before: undefined, after: LAUNCHER },
  { name: "a pod that is no launcher", before: { annotations: STATUS }, after: {} },
  {
    name: "a launcher that asks for networks",
    before: LAUNCHER,
    after: { ...LAUNCHER, annotations: { ...STATUS, ...ERRORS, [names.NETWORKS_ANNOTATION]: "" } },
  },
])("$name is nobody's business here", async ({ before, after }) => {
  expect(await judge(before, after)).toEqual({ allowed: true });
});

test.each<{ name: string; after: Words }>([
  {
    name: "says that it has other networks",
    after: { ...LAUNCHER, annotations: { ...ERRORS, [names.NETWORK_STATUS_ANNOTATION]: "[{}]" } },
  },
  { name: "says that it has none", after: { ...LAUNCHER, annotations: ERRORS } },
  { name: "says that nothing fails", after: { ...LAUNCHER, annotations: STATUS } },
  { name: "says that it is none", after: { ...LAUNCHER, labels: {} } },
])("a launcher that $name is refused", async ({ after }) => {
  expect(await judge(LAUNCHER, after)).toMatchObject({ allowed: false, code: 403 });
});
