// SPDX-License-Identifier: Apache-2.0
// Access to the doctor of other tenants' guests.
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Person, VirtApiMachine } from "../virt-api-machine.ts";

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const GROUP = "/apis/subresources.kubevirt.io";

let machine: VirtApiMachine;
let editor: Person;
let viewer: Person;

beforeAll(async () => {
  machine = await VirtApiMachine.start();
  for (const role of ["edit", "view"]) {
    await machine.api.post(`${RBAC}/namespaces/default/rolebindings`, {
      metadata: { name: role },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: role },
      subjects: [{ kind: "User", name: role, apiGroup: "rbac.authorization.k8s.io" }],
    });
  }
  editor = await machine.person("edit");
  viewer = await machine.person("view");
  // The API server knows virt-api and checks its availability.
  const isServed = async (): Promise<boolean> => {
    const answer = await editor.ask("GET", `${GROUP}/v1`).catch(() => undefined);
    return answer?.code === 200;
  };
  await eventually(isServed, { withinMs: 30_000 });
});
afterAll(() => machine[Symbol.asyncDispose]());

function doctorOf(namespace: string, name: string, query = "interface=blue"): string {
  return `${GROUP}/v1/namespaces/${namespace}/virtualmachineinstances/${name}/doctor?${query}`;
}

test("attack 118: rejects viewers and unprivileged users", async () => {
  const unprivileged = await machine.person();
  for (const person of [viewer, unprivileged]) {
    expect(await person.ask("GET", doctorOf("default", "one"))).toMatchObject({ code: 403 });
  }
});

test.each([
  { name: "a VM of another namespace", path: doctorOf("kube-system", "one"), code: 403 },
  { name: "a missing VM", path: doctorOf("default", "one"), code: 404 },
  { name: "a path that leads to another VM", path: doctorOf("default", "..%2f..%2fone"), code: 40 },
  { name: "a modifying request", path: doctorOf("default", "one"), code: 4, method: "PUT" },
  { name: "a missing interface", path: doctorOf("default", "one", ""), code: 400 },
  {
    name: "an unknown field",
    path: doctorOf("default", "one", "interface=a&link=eno1"),
    code: 400,
  },
])(
  "attack 118: rejects $name for a user who edits one namespace",
  async ({ path, code, method }) => {
    const answer = await editor.ask(method ?? "GET", path);
    expect(String(answer.code)).toMatch(new RegExp(`^${String(code)}`));
  },
);
