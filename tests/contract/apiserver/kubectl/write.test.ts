// SPDX-License-Identifier: Apache-2.0
// kubectl's write commands.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { callPatchbay } from "../../../../packages/cli/src/testing/run-patchbay.ts";
import { type KubectlSession, startKubectlSession } from "./session.ts";

let session: KubectlSession;

beforeAll(async () => {
  session = await startKubectlSession({ EDITOR: "sed -i s/size:.s/size:\\ m/" });
});

afterAll(async () => {
  await session.close();
});

function configMap(name: string, data: Readonly<Record<string, string>>) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data };
}

async function dataOf(name: string): Promise<unknown> {
  return (await session.api.get(`/api/v1/namespaces/default/configmaps/${name}`)).body.data;
}

test("apply adds, changes and removes what the manifest no longer has", async () => {
  const path = await session.write("applied.json", configMap("applied", { a: "1", b: "1" }));
  expect((await session.kubectl("apply -f", path)).out).toBe("configmap/applied created\n");
  await session.api.patch("/api/v1/namespaces/default/configmaps/applied", { data: { c: "3" } });
  await session.write("applied.json", configMap("applied", { a: "2" }));
  expect((await session.kubectl("diff -f", path)).code).toBe(1);
  expect((await session.kubectl("apply --dry-run=server -f", path)).out).toContain(
    "server dry run",
  );
  expect(await dataOf("applied")).toEqual({ a: "1", b: "1", c: "3" });
  expect((await session.kubectl("apply -f", path)).out).toBe("configmap/applied configured\n");
  expect(await dataOf("applied")).toEqual({ a: "2", c: "3" });
  expect((await session.kubectl("apply -f", path)).out).toBe("configmap/applied unchanged\n");
});

test("apply names every unknown field", async () => {
  const path = await session.write("typo.json", {
    ...configMap("typo", {}),
    dta: {},
    imutable: true,
  });
  const { code, err } = await session.kubectl("apply -f", path);
  expect(code).toBe(1);
  expect(err).toMatch(/unknown field "dta"/);
  expect(err).toMatch(/unknown field "imutable"/);
});

test("rejects server-side apply with a message", async () => {
  const path = await session.write("ssa.json", configMap("ssa", {}));
  const { code, err } = await session.kubectl("apply --server-side -f", path);
  expect([code, err]).toEqual([
    1,
    expect.stringMatching(/not available|unknown format|Unsupported/),
  ]);
});

test("a kustomization is applied and deleted", async () => {
  await mkdir(join(session.directory, "kz"));
  await session.write("kz/cm.json", configMap("c", { a: "b" }));
  await session.write("kz/kustomization.yaml", "resources: [cm.json]\nnamePrefix: kz-\n");
  expect((await session.kubectl("apply -k kz")).out).toBe("configmap/kz-c created\n");
  expect((await session.kubectl("delete -k kz")).out).toContain('configmap "kz-c" deleted');
});

test("edit, replace and patch", async () => {
  const path = await session.write("size.json", configMap("size", { size: "s" }));
  await session.kubectl("create --save-config -f", path);
  expect((await session.kubectl("edit cm size")).out).toBe("configmap/size edited\n");
  expect(await dataOf("size")).toEqual({ size: "m" });
  expect((await session.kubectl("replace -f", path)).code).toBe(0);
  expect(await dataOf("size")).toEqual({ size: "s" });
  await session.kubectl("patch cm size -p", '{"data":{"a":"1"}}');
  await session.kubectl("patch cm size --type=merge -p", '{"data":{"b":"2"}}');
  await session.kubectl("patch cm size --type=json -p", '[{"op":"remove","path":"/data/size"}]');
  expect(await dataOf("size")).toEqual({ a: "1", b: "2" });
  expect((await session.kubectl("replace --force -f", path)).out).toContain("replaced");
});

test("labels, annotations and their conflicts", async () => {
  await session.kubectl("create configmap noted --from-literal=a=b");
  expect((await session.kubectl("label cm noted l=1")).out).toContain("labeled");
  expect((await session.kubectl("label cm noted l=2")).err).toContain("--overwrite is false");
  expect((await session.kubectl("annotate cm noted n=1 n2-")).code).toBe(0);
  const stale = await session.kubectl("label cm noted l=3 --overwrite --resource-version=1");
  expect(stale.err).toContain("the object has been modified");
});

test("a node is cordoned, tainted, drained", async () => {
  await session.api.post("/api/v1/nodes", { metadata: { name: "n1" } });
  expect((await session.kubectl("cordon n1")).out).toBe("node/n1 cordoned\n");
  expect((await session.kubectl("taint nodes n1 k=v:NoSchedule")).out).toContain("node/n1 tainted");
  expect((await session.kubectl("get nodes --no-headers")).out).toMatch(
    /^n1 +Unknown,SchedulingDisabled/,
  );
  expect((await session.kubectl("uncordon n1")).out).toBe("node/n1 uncordoned\n");
  expect((await session.kubectl("drain n1")).out).toContain("drained");
});

test.concurrent.each([
  ["create namespace made", "namespace/made"],
  ["create deployment made --image=i:1", "deployment.apps/made"],
  ["create quota made --hard=pods=100", "resourcequota/made"],
  ["create service clusterip made --tcp=80", "service/made"],
  ["create priorityclass made --value=1", "priorityclass.scheduling.k8s.io/made"],
  ["create job made --image=i", "job.batch/made"],
  ["run made --image=i", "pod/made"],
])("%s", async (line, want) => {
  expect((await session.kubectl(line)).out).toBe(`${want} created\n`);
});

test("a deployment is scaled, exposed and updated to another image", async () => {
  await session.kubectl("create deployment web --image=i:1");
  expect((await session.kubectl("scale deployment web --replicas=3")).out).toContain("scaled");
  expect((await session.kubectl("set image deployment/web i=i:2")).out).toContain("image updated");
  expect((await session.kubectl("expose deployment web --port=80")).out).toContain("exposed");
  const path = "/apis/apps/v1/namespaces/default/deployments/web";
  expect((await session.api.get(path)).body).toMatchObject({
    metadata: { generation: 3 },
    spec: { replicas: 3, template: { spec: { containers: [{ image: "i:2" }] } } },
  });
});

test("a quota is created and described, and a creation beyond it is refused", async () => {
  await session.kubectl("create namespace tenant");
  const created = await session.kubectl(
    "create quota few -n tenant --hard=pods=1,services.nodeports=3",
  );
  expect(created.out).toBe("resourcequota/few created\n");
  expect((await session.kubectl("run one -n tenant --image=i")).code).toBe(0);
  const refused = await session.kubectl("run two -n tenant --image=i");
  expect([refused.code, refused.err]).toEqual([
    1,
    'Error from server (Forbidden): pods "two" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1\n',
  ]);
  const wait = ["--for=jsonpath={.status.used.pods}=1", "--timeout=30s"];
  await session.kubectl("wait quota few -n tenant", ...wait);
  expect((await session.kubectl("describe quota few -n tenant")).out).toMatch(
    /Resource +Used +Hard\n[- ]+\npods +1 +1\nservices.nodeports +0 +3\n/,
  );
});

test("a LimitRange sets the defaults of containers, and is described", async () => {
  await session.kubectl("create namespace limited");
  const limits = [
    { type: "Container", max: { memory: "1Gi" }, defaultRequest: { memory: "64Mi" } },
  ];
  const range = { apiVersion: "v1", kind: "LimitRange", metadata: { name: "range" } };
  const path = await session.write("range.json", { ...range, spec: { limits } });
  expect((await session.kubectl("apply -n limited -f", path)).out).toBe(
    "limitrange/range created\n",
  );
  await session.kubectl("run one -n limited --image=i");
  const resources = await session.kubectl(
    "get pod one -n limited -o jsonpath={.spec.containers[0].resources}",
  );
  expect(JSON.parse(resources.out)).toEqual({
    requests: { memory: "64Mi" },
    limits: { memory: "1Gi" },
  });
  expect((await session.kubectl("describe limitrange range -n limited")).out).toMatch(
    /Container +memory +- +1Gi +64Mi +1Gi +-/,
  );
});

test("a tenant's namespace admits pods without requests, and none that reaches other namespaces", async () => {
  const kubeconfig = join(session.directory, "kubeconfig");
  const args = ["create", "namespace", "t1", "--hard", "pods=1", "--kubeconfig", kubeconfig];
  const created = await callPatchbay(args);
  expect([created.exitCode, created.stderr, created.stdout]).toEqual([
    0,
    "",
    "namespace/t1 created\nresourcequota/tenant created\nresourcequota/cross-namespace-affinity created\nlimitrange/tenant created\nshow its usage with: kubectl describe quota -n t1\n",
  ]);
  const podAffinity = {
    requiredDuringSchedulingIgnoredDuringExecution: [
      { topologyKey: "kubernetes.io/hostname", namespaceSelector: {} },
    ],
  };
  const post = (name: string, spec: object) =>
    session.api.post("/api/v1/namespaces/t1/pods", {
      metadata: { name },
      spec: { containers: [{ name: "c", image: "i" }], ...spec },
    });
  expect(await post("far", { affinity: { podAffinity } })).toMatchObject({
    code: 403,
    body: {
      message:
        'pods "far" is forbidden: exceeded quota: cross-namespace-affinity, requested: pods=1, used: pods=0, limited: pods=0',
    },
  });
  expect((await post("near", {})).code).toBe(201);
  expect(await post("second", {})).toMatchObject({
    code: 403,
    body: {
      message:
        'pods "second" is forbidden: exceeded quota: tenant, requested: pods=1, used: pods=1, limited: pods=1',
    },
  });
});

test("a namespace that exists gets the quota of tenants, which counts what it uses", async () => {
  const kubeconfig = join(session.directory, "kubeconfig");
  const args = ["create", "namespace", "old", "--existing", "--kubeconfig", kubeconfig];
  expect(await callPatchbay(args)).toMatchObject({ exitCode: 3, stdout: "" });
  await session.kubectl("create namespace old");
  await session.kubectl("run one -n old --image=i");
  expect((await callPatchbay(args)).stdout).toBe(
    "resourcequota/tenant created\nresourcequota/cross-namespace-affinity created\nlimitrange/tenant created\nshow its usage with: kubectl describe quota -n old\n",
  );
  const wait = ["--for=jsonpath={.status.used.pods}=1", "--timeout=30s"];
  expect((await session.kubectl("wait quota tenant -n old", ...wait)).code).toBe(0);
});

test("delete by name, by label, and without waiting", async () => {
  await session.kubectl("create configmap gone --from-literal=a=b");
  await session.kubectl("label cm gone drop=yes");
  expect((await session.kubectl("delete cm -l drop=yes")).out).toContain('"gone" deleted');
  expect((await session.kubectl("delete cm gone")).err).toContain("not found");
  expect((await session.kubectl("delete cm gone --ignore-not-found")).code).toBe(0);
  await session.kubectl("run doomed --image=i");
  const forced = await session.kubectl("delete pod doomed --grace-period=0 --force");
  expect([forced.code, forced.err]).toEqual([0, expect.stringContaining("mmediate deletion")]);
});
