// SPDX-License-Identifier: Apache-2.0
// The checks before an installation, and the archive for a bug report, on a real API server.
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gunzipSync } from "node:zlib";
import { executableOf } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { callPatchbay, type Called } from "../../../packages/cli/src/testing/run-patchbay.ts";
import {
  type Harness,
  janeKubeconfig,
  KUBEVIRT_API_SERVICE,
  startHarness,
} from "../apiserver/harness.ts";

const WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices";
const NAMESPACES = "/api/v1/namespaces";
const DAEMON_SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets";
const VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";

let api: Harness;
let directory: string;

beforeEach(async () => {
  api = await startHarness();
  directory = await mkdtemp(join(tmpdir(), "before-install-"));
  await writeFile(join(directory, "kubeconfig"), api.kubeconfig, { mode: 0o600 });
});

afterEach(async () => {
  await api.close();
  await rm(directory, { recursive: true });
});

/** Runs a command as the administrator. */
function patchbay(...args: readonly string[]): Promise<Called> {
  return callPatchbay(["--kubeconfig", join(directory, "kubeconfig"), ...args]);
}

/** Runs a command as a user without rights. */
async function patchbayAsJane(...args: readonly string[]): Promise<Called> {
  const file = join(directory, "jane");
  await writeFile(file, janeKubeconfig(api));
  return callPatchbay(["--kubeconfig", file, ...args]);
}

/** A webhook for pods in all namespaces, whose Service does not exist. */
const DEAD_WEBHOOK = {
  apiVersion: "admissionregistration.k8s.io/v1",
  kind: "ValidatingWebhookConfiguration",
  metadata: { name: "policies" },
  webhooks: [
    {
      name: "pods.policy.example",
      clientConfig: { service: { name: "server", namespace: "policy" } },
      rules: [
        { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"] },
      ],
      failurePolicy: "Fail",
      sideEffects: "None",
      admissionReviewVersions: ["v1"],
    },
  ],
};
const MULTUS = {
  apiVersion: "apps/v1",
  kind: "DaemonSet",
  metadata: { name: "kube-multus-ds" },
  spec: {
    selector: { matchLabels: { app: "multus" } },
    template: {
      metadata: { labels: { app: "multus" } },
      spec: { containers: [{ name: "kube-multus", image: "multus:thick" }] },
    },
  },
};

async function namespaceNames(): Promise<readonly string[]> {
  return (await api.get(NAMESPACES)).body.items.map(({ metadata }) => metadata.name);
}

describe("install", () => {
  test("names all problems at once, each with a fix, and changes nothing", async () => {
    await api.post(WEBHOOKS, DEAD_WEBHOOK);
    await api.post(API_SERVICES, KUBEVIRT_API_SERVICE);
    await api.post(DAEMON_SETS, MULTUS);
    const { exitCode, stderr, stdout } = await patchbay("install", "--mode", "alone");
    expect(exitCode).toBe(4);
    const wrong = stderr.split("\n").filter((line) => line.startsWith("WRONG"));
    expect(wrong).toEqual([
      expect.stringContaining("APIService v1.subresources.kubevirt.io: is of another installation"),
      expect.stringContaining("Multus: DaemonSet kube-system/kube-multus-ds (thick plugin) exists"),
      expect.stringContaining(
        "pods.policy.example: its Service policy/server has no ready endpoint",
      ),
    ]);
    expect(stderr.match(/^ +fix: /gm)).toHaveLength(3);
    expect(stderr).toMatch(/^error: the cluster fails 3 of \d+ checks; nothing was changed$/m);
    expect(stdout).toBe("");
    expect(await namespaceNames()).not.toContain("patchbay");
  });

  test("installs in spite of a problem with --skip-checks", async () => {
    await api.post(WEBHOOKS, DEAD_WEBHOOK);
    expect((await patchbay("install")).exitCode).toBe(4);
    expect((await patchbay("install", "--skip-checks")).exitCode).toBe(0);
    expect(await namespaceNames()).toContain("patchbay");
  });

  test("finds an object that the server refuses in a dry run", async () => {
    await patchbay("install");
    const [webhook] = DEAD_WEBHOOK.webhooks;
    const updates = { apiGroups: ["apps"], apiVersions: ["v1"], operations: ["UPDATE"] };
    const rules = [{ ...updates, resources: ["deployments"] }];
    await api.post(WEBHOOKS, { ...DEAD_WEBHOOK, webhooks: [{ ...webhook, rules }] });
    const { exitCode, stderr } = await patchbay("install", "--image", "r.example/p:2");
    expect(exitCode).toBe(4);
    expect(stderr).toMatch(/^WRONG {2}Deployment patchbay\/virt-api: the API server refuses it: /m);
  });

  test("a dry run prints the changed fields of every kind", async () => {
    await patchbay("install");
    const path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/patchbay:net-agent";
    await api.patch(path, { rules: [] });
    const crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kubevirts.kubevirt.io";
    const names = { shortNames: ["other"] };
    await api.patch(crd, { spec: { names } });
    const { exitCode, stdout } = await patchbay("install", "--dry-run");
    expect(exitCode).toBe(0);
    const lines = stdout.split("\n");
    expect(lines).toContain("ClusterRole patchbay:net-agent: would be changed");
    expect(lines.some((line) => line.startsWith('  + rules: {"apiGroups":['))).toBe(true);
    expect(lines).toContain("  - spec.names.shortNames: other");
  });
});

describe("doctor --before-install", () => {
  test("passes on an empty server, and changes nothing", async () => {
    const { exitCode, stdout } = await patchbay("doctor", "--before-install");
    expect(stdout).toMatch(/^ok {5}aggregation layer: is served, with a CA/m);
    expect(stdout).toMatch(/^ok {5}your rights: suffice/m);
    expect(stdout).toMatch(/^ok {5}admission of the objects: the API server accepts them/m);
    expect(exitCode).toBe(0);
    expect(await namespaceNames()).not.toContain("patchbay");
  });

  test("fails with the problems of a cluster", async () => {
    await api.post(API_SERVICES, KUBEVIRT_API_SERVICE);
    const { exitCode, stdout } = await patchbay("doctor", "--before-install", "-o", "json");
    expect(exitCode).toBe(1);
    const { findings } = JSON.parse(stdout) as { findings: { check: string; verdict: string }[] };
    expect(findings.filter(({ verdict }) => verdict === "wrong")).toMatchObject([
      { check: "APIService v1.subresources.kubevirt.io" },
    ]);
  });

  test("reports only missing rights to a user without rights", async () => {
    const { exitCode, stdout } = await patchbayAsJane("doctor", "--before-install");
    const wrong = stdout.split("\n").filter((line) => line.startsWith("WRONG"));
    expect(wrong).toEqual([expect.stringMatching(/^WRONG {2}your rights: you may not get /)]);
    expect(stdout).toMatch(/^\? {6}other installations: .*forbidden/m);
    expect(exitCode).toBe(1);
  });

  test("succeeds in a pod whose service account has no rights", async () => {
    const account = "/run/secrets/kubernetes.io/serviceaccount";
    const files = { "ca.crt": api.authority.certPem, namespace: "patchbay", token: "jane-token" };
    for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
    const { hostname, port } = new URL(api.server.url);
    const script = [
      `mkdir -p ${directory}/none && mount -t tmpfs tmpfs /run && mkdir -p ${account}`,
      `cp ${directory}/ca.crt ${directory}/namespace ${directory}/token ${account}`,
      `exec ${executableOf("patchbay")} doctor --before-install --data-dir ${directory}/none`,
    ].join(" && ");
    const { PATH } = process.env;
    const env = { PATH, KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port };
    const argv = ["--mount", "sh", "-c", script];
    const { stdout } = await promisify(execFile)("unshare", argv, { env });
    expect(stdout).not.toContain("WRONG");
    expect(stdout).toMatch(/^\? {6}your rights: this pod's account does not install Patchbay/m);
  });
});

describe("doctor --bundle", () => {
  async function createVm(): Promise<void> {
    await patchbay("install");
    for (const path of [WEBHOOKS, WEBHOOKS.replace("validating", "mutating")])
      await api.delete(`${path}/patchbay`); // no server handles them here
    const userData = "#cloud-config\npassword: planted-user-data\n";
    await api.post(VMS, {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachine",
      metadata: { name: "alpha", annotations: { "example.com/note": "planted-annotation" } },
      spec: {
        running: false,
        template: {
          spec: {
            domain: { devices: {} },
            volumes: [{ name: "init", cloudInitNoCloud: { userData } }],
          },
        },
      },
    });
    const secrets = "/api/v1/namespaces/patchbay/secrets/virt-api-certificates";
    await api.patch(secrets, {
      data: { "tls.key": Buffer.from("planted-key").toString("base64") },
    });
  }

  test("writes a new private file without secrets", async () => {
    await createVm();
    const file = join(directory, "bundle.tar.gz");
    const { exitCode, stdout } = await patchbay("doctor", "alpha", "--bundle", file);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/bundle\.tar\.gz: \d+ bytes; read it before you send it\n/);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const text = gunzipSync(await readFile(file)).toString("latin1");
    for (const name of ["virtualmachines.kubevirt.io", "daemonsets.apps", "kubevirts.kubevirt.io"])
      expect(text).toContain(`patchbay-bundle/objects/${name}.json`);
    expect(text).toContain("patchbay-bundle/doctor.txt");
    expect(text).not.toContain("planted");
    expect(text).not.toContain(Buffer.from("planted-key").toString("base64"));
    const again = await patchbay("doctor", "--bundle", file);
    expect(again.exitCode).toBe(1);
    expect(again.stderr).toContain("EEXIST");
  });

  test("lists what a user may not read", async () => {
    await createVm();
    const file = join(directory, "bundle.tar.gz");
    const { exitCode, stdout } = await patchbayAsJane("doctor", "--bundle", file, "-o", "json");
    expect(exitCode).toBe(0);
    const { missing } = JSON.parse(stdout) as { readonly missing: readonly string[] };
    expect(missing).toContainEqual(
      expect.stringMatching(/^objects\/virtualmachines\.kubevirt\.io\.json: .*forbidden/),
    );
    const text = gunzipSync(await readFile(file)).toString("latin1");
    expect(text).toContain("Missing:");
  });
});
