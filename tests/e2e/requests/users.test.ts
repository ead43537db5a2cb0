// SPDX-License-Identifier: Apache-2.0
// Users with limited rights: a role in one namespace, and its limit.
import { bridgeNetworkManifest, vmManifest, type CommandResult } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectGone, expectReady, machine, removeInterface, SUBRESOURCES } from "../machine.ts";
import { createPerson, type Person } from "./person.ts";

const OTHER = SUBRESOURCES.replace("namespaces/default", "namespaces/other");
const ADD = { name: "hers", networkAttachmentDefinitionName: "blue" };

const GREEN = {
  apiVersion: "k8s.cni.cncf.io/v1",
  kind: "NetworkAttachmentDefinition",
  metadata: { name: "green", namespace: "other" },
  spec: { config: JSON.stringify({ cniVersion: "0.4.0", type: "bridge", bridge: "pbt-red" }) },
};

/** kubectl's output of a rejection; `what` is for example `get pods in apps`. */
function refusal(person: Person, what: string, namespace = "default"): RegExp {
  const [verb = "", resource = "", , group = ""] = what.split(" ");
  return new RegExp(
    `\\(Forbidden\\).*User "${person.name}" cannot ${verb} resource "${resource}" in API group "${group}" in the namespace "${namespace}"`,
  );
}

interface RoleName {
  readonly kind: "ClusterRole" | "Role";
  readonly name: string;
}

/** A binding named like the user. */
function roleBinding(user: string, role: RoleName, namespace = "default"): unknown {
  const apiGroup = "rbac.authorization.k8s.io";
  return {
    apiVersion: `${apiGroup}/v1`,
    kind: "RoleBinding",
    metadata: { name: user, namespace },
    roleRef: { apiGroup, ...role },
    subjects: [{ apiGroup, kind: "User", name: user }],
  };
}

function dryRun(path: string): string {
  return `${path}?dryRun=All`;
}

beforeAll(() => {
  machine.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: "other" } });
});

afterAll(() => {
  machine.startDelete("namespace", "other");
});

describe("a user with the role edit in one namespace", () => {
  let jane: Person;

  beforeAll(async () => {
    jane = await createPerson("jane");
    machine.apply(roleBinding("jane", { kind: "ClusterRole", name: "edit" }));
  });

  afterAll(() => {
    machine.delete("rolebinding", "jane");
  });

  test("plugs an interface into a VM there and unplugs it", async () => {
    expect(jane.kubectl("get", "vm", "alpha", "-o", "name")).toMatchObject({ code: 0 });
    expect(jane.put(`${SUBRESOURCES}/virtualmachines/alpha/addinterface`, ADD)).toMatchObject({
      code: 0,
    });
    await expectReady("alpha", ADD.name);
    const { name } = ADD;
    expect(
      jane.put(`${SUBRESOURCES}/virtualmachines/alpha/removeinterface`, { name }),
    ).toMatchObject({ code: 0 });
    await expectGone("alpha", name);
  });

  test("is rejected in another namespace before the VM is looked up", () => {
    const { code, stderr } = jane.put(`${OTHER}/virtualmachines/alpha/addinterface`, ADD);
    expect(code).not.toBe(0);
    const what = "update virtualmachines/addinterface in subresources.kubevirt.io";
    expect(stderr).toMatch(refusal(jane, what, "other"));
    const list = jane.kubectl("get", "vm", "-n", "other");
    expect(list.stderr).toMatch(refusal(jane, "list virtualmachines in kubevirt.io", "other"));
  });

  test("plugs a network of another namespace as soon as the user may read it", async () => {
    const path = `${SUBRESOURCES}/virtualmachines/alpha/addinterface`;
    const ask = (): CommandResult =>
      jane.put(path, { name: "foreign", networkAttachmentDefinitionName: "other/green" });
    machine.apply(GREEN);
    const what = "get network-attachment-definitions in k8s.cni.cncf.io";
    expect(ask().stderr).toMatch(refusal(jane, what, "other"));
    machine.apply(roleBinding("jane", { kind: "ClusterRole", name: "view" }, "other"));
    expect(ask()).toMatchObject({ code: 0 });
    await expectReady("alpha", "foreign");
    removeInterface("alpha", "foreign");
    await expectGone("alpha", "foreign");
  });

  test("creates VMs, but no networks", () => {
    expect(jane.tryCreate(vmManifest({ name: "hers", running: false }))).toMatchObject({ code: 0 });
    const { stderr } = jane.tryCreate(bridgeNetworkManifest("hers", "pbt-hers"));
    const what = "create network-attachment-definitions in k8s.cni.cncf.io";
    expect(stderr).toMatch(refusal(jane, what));
  });
});

const PLUG_ALPHA = {
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind: "Role",
  metadata: { name: "plug", namespace: "default" },
  rules: [
    {
      apiGroups: ["subresources.kubevirt.io"],
      resources: ["virtualmachines/addinterface"],
      resourceNames: ["alpha"],
      verbs: ["update"],
    },
  ],
};

describe("a program that may plug into one VM only", () => {
  let robot: Person;

  beforeAll(async () => {
    robot = await createPerson("robot");
    machine.apply(PLUG_ALPHA);
    machine.apply(roleBinding("robot", { kind: "Role", name: "plug" }));
  });

  afterAll(() => {
    machine.delete("rolebinding", "robot");
    machine.delete("role", "plug");
  });

  test("may plug without the right to read the VM", () => {
    const path = dryRun(`${SUBRESOURCES}/virtualmachines/alpha/addinterface`);
    expect(robot.put(path, ADD)).toMatchObject({ code: 0 });
    const { stderr } = robot.kubectl("get", "vm", "alpha");
    expect(stderr).toMatch(refusal(robot, "get virtualmachines in kubevirt.io"));
  });

  test.each([
    { what: "another VM", path: "virtualmachines/beta/addinterface" },
    { what: "the VMI of the same name", path: "virtualmachineinstances/alpha/addinterface" },
    { what: "another request", path: "virtualmachines/alpha/removeinterface" },
  ])("is rejected: $what", ({ path }) => {
    const { stderr } = robot.put(dryRun(`${SUBRESOURCES}/${path}`), ADD);
    const [kind = "", , request = ""] = path.split("/");
    const what = `update ${kind}/${request} in subresources.kubevirt.io`;
    expect(stderr).toMatch(refusal(robot, what));
  });
});

describe("a user with the role view", () => {
  let viewer: Person;

  beforeAll(async () => {
    viewer = await createPerson("viewer");
    machine.apply(roleBinding("viewer", { kind: "ClusterRole", name: "view" }));
  });

  afterAll(() => {
    machine.delete("rolebinding", "viewer");
  });

  test("reads VMs and networks and changes nothing", () => {
    expect(viewer.kubectl("get", "vm,vmi,net-attach-def")).toMatchObject({ code: 0 });
    const patch = ["--type=merge", "-p", '{"spec":{"runStrategy":"Halted"}}'];
    const { stderr } = viewer.kubectl("patch", "vm", "alpha", ...patch, "--dry-run=server");
    expect(stderr).toMatch(refusal(viewer, "patch virtualmachines in kubevirt.io"));
    const add = viewer.put(dryRun(`${SUBRESOURCES}/virtualmachines/alpha/addinterface`), ADD);
    const what = "update virtualmachines/addinterface in subresources.kubevirt.io";
    expect(add.stderr).toMatch(refusal(viewer, what));
  });
});
