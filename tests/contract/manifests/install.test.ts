// SPDX-License-Identifier: Apache-2.0
// The API server's objects after an install, a reinstall and an uninstall.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import { parseManifests, readManifests } from "@patchbay/manifests";
import { createClock, createFiles, createProcessRunner } from "@patchbay/os";
import { executableOf } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { callPatchbay, type Called } from "../../../packages/cli/src/testing/run-patchbay.ts";
import { type Harness, QUIET, startHarness } from "../apiserver/harness.ts";

const WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices";
const NADS = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions";
const KUBEVIRT_OBJECT = "/apis/kubevirt.io/v1/namespaces/patchbay/kubevirts/kubevirt";
const AGENT = "/apis/apps/v1/namespaces/patchbay/daemonsets/net-agent";
const VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";
const MULTUS = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "network-attachment-definitions.k8s.cni.cncf.io" },
  spec: {
    group: "k8s.cni.cncf.io",
    scope: "Namespaced",
    names: {
      plural: "network-attachment-definitions",
      kind: "NetworkAttachmentDefinition",
    },
    versions: [
      { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } },
    ],
  },
};

/** KubeVirt's objects under the names that Patchbay would use. */
const KUBEVIRT = [
  {
    what: "CustomResourceDefinition kubevirts.kubevirt.io",
    path: DEFINITIONS,
    object: {
      ...MULTUS,
      metadata: {
        name: "kubevirts.kubevirt.io",
        labels: { "app.kubernetes.io/managed-by": "virt-operator" },
      },
      spec: {
        ...MULTUS.spec,
        group: "kubevirt.io",
        names: { plural: "kubevirts", kind: "KubeVirt" },
      },
    },
  },
  {
    what: "APIService v1alpha3.subresources.kubevirt.io",
    path: API_SERVICES,
    object: {
      apiVersion: "apiregistration.k8s.io/v1",
      kind: "APIService",
      metadata: { name: "v1alpha3.subresources.kubevirt.io" },
      spec: {
        group: "subresources.kubevirt.io",
        version: "v1alpha3",
        groupPriorityMinimum: 1000,
        versionPriority: 15,
        service: { name: "virt-api", namespace: "kubevirt" },
      },
    },
  },
  {
    what: "MutatingWebhookConfiguration virt-api-mutator",
    path: WEBHOOKS,
    object: {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: "MutatingWebhookConfiguration",
      metadata: { name: "virt-api-mutator" },
      webhooks: [
        {
          name: "vms.kubevirt.io",
          clientConfig: { service: { name: "virt-api", namespace: "kubevirt" } },
          rules: [
            {
              apiGroups: ["kubevirt.io"],
              apiVersions: ["*"],
              operations: ["CREATE"],
              resources: ["virtualmachines"],
            },
          ],
          failurePolicy: "Ignore",
          sideEffects: "None",
          admissionReviewVersions: ["v1"],
        },
      ],
    },
  },
];

let api: Harness;
let client: KubeClient;
let directory: string;

beforeEach(async () => {
  api = await startHarness();
  directory = await mkdtemp(join(tmpdir(), "install-"));
  const kubeconfig = join(directory, "kubeconfig");
  await writeFile(kubeconfig, api.kubeconfig, { mode: 0o600 });
  const config = await loadKubeConfig({ kubeconfig });
  client = createKubeClient(config, { logger: QUIET, clock: createClock() });
});

afterEach(async () => {
  await client.close();
  await api.close();
  await rm(directory, { recursive: true });
});

interface Said {
  readonly exitCode: number;
  readonly lines: readonly string[];
  readonly stderr: string;
}

function wordsOf(args: readonly string[]): readonly string[] {
  return ["--kubeconfig", join(directory, "kubeconfig"), ...args];
}

function summarize({ exitCode, stdout, stderr }: Called): Said {
  return { exitCode, lines: stdout.trim().split("\n"), stderr };
}

/** The command line in its own process, as a user runs it. */
async function patchbayProcess(...args: readonly string[]): Promise<Said> {
  const argv = [executableOf("patchbay"), ...wordsOf(args)] as const;
  return summarize(await createProcessRunner().run({ argv, timeoutMs: 60_000 }));
}

/** The same in this process. */
async function patchbay(...args: readonly string[]): Promise<Said> {
  return summarize(await callPatchbay(wordsOf(args)));
}

function changesIn({ lines }: Said): ReadonlySet<string> {
  return new Set(lines.map((line) => line.slice(line.indexOf(": ") + 2)));
}

async function names(path: string): Promise<readonly string[]> {
  return (await api.get(path)).body.items.map(({ metadata }) => metadata.name);
}

async function kinds(): Promise<readonly string[]> {
  const all = await names(DEFINITIONS);
  return all.filter((name) => name.endsWith("kubevirt.io"));
}

const removed = (arg: string): string => `  - net-agent: ${arg}`;
const added = (arg: string): string => `  + net-agent: ${arg}`;

describe("install", () => {
  test("creates all objects in strict mode, and changes nothing the second time", async () => {
    const first = await patchbayProcess("install");
    // The embedded server warns of kinds without a controller, and of limits of NetworkPolicies.
    const reported =
      /(?:handles|on this machine) a (\w+)(?:, it is only stored: | restricts only )/;
    const lines = first.stderr.trim().split("\n");
    const kinds = lines.flatMap((line) => reported.exec(line)?.[1] ?? []);
    expect(new Set(kinds)).toEqual(new Set(["NetworkPolicy", "Deployment", "DaemonSet"]));
    expect(lines.filter((line) => !reported.test(line))).toEqual([
      expect.stringMatching(/^checked the cluster: (\d+) of \d+ checks are ok$/),
      "warn   nodes: there is none yet: nothing will run",
      "there is no node yet; when there is one, check with: patchbay doctor",
    ]);
    expect(changesIn(first)).toEqual(new Set(["created"]));
    const base = parseManifests(await readManifests(createFiles(), "base"));
    expect(first.lines).toHaveLength(base.length + 1);
    // Created at the start: each setting is a patch of it.
    expect(first.lines.at(-1)).toBe("KubeVirt patchbay/kubevirt: created");
    expect((await api.get(KUBEVIRT_OBJECT)).body.spec).toEqual({});
    expect(changesIn(await patchbay("install", "--skip-checks"))).toEqual(new Set(["unchanged"]));
  });

  test("updates changed objects and preserves the certificates that virt-api wrote", async () => {
    await patchbay("install", "--skip-checks");
    const operations = [{ op: "add", path: "/webhooks/0/clientConfig/caBundle", value: "eA==" }];
    await api.patch(`${WEBHOOKS}/patchbay`, operations, "application/json-patch+json");
    const secret = "/api/v1/namespaces/patchbay/secrets/virt-api-certificates";
    await api.patch(secret, { data: { "tls.key": "eA==" } });
    const output = await patchbay(
      "install",
      "--image",
      "registry.example/patchbay:1",
      "-o",
      "json",
    );
    const { objects } = JSON.parse(output.lines.join("\n")) as {
      objects: { name: string; change: string }[];
    };
    expect(objects.filter(({ change }) => change !== "unchanged")).toEqual(
      ["Deployment patchbay/virt-api", "Deployment patchbay/virt-controller"]
        .concat(["DaemonSet patchbay/net-agent", "DaemonSet patchbay/virt-handler"])
        .map((name) => {
          const image = `${name.slice(name.indexOf("/") + 1)}: image:`;
          const differences = [
            `- ${image} localhost/patchbay/patchbay:dev`,
            `+ ${image} registry.example/patchbay:1`,
          ];
          return { name, change: "changed", differences, isChecked: true };
        }),
    );
    expect((await api.get(secret)).body.data).toEqual({ "tls.key": "eA==" });
    expect(JSON.stringify((await api.get(`${WEBHOOKS}/patchbay`)).body)).toContain(
      '"caBundle":"eA=="',
    );
  });

  test("preserves settings that are not named again and manual settings", async () => {
    const flags = [
      "--skip-checks",
      "--image",
      "r/p:1",
      "--launcher-image",
      "r/l:1",
      "--mode",
      "alone",
    ];
    await patchbay("install", ...flags, "--pod-creation", "--kubelet-root-dir", "/data/kubelet");
    const configuration = { developerConfiguration: { useEmulation: true } };
    await api.patch(KUBEVIRT_OBJECT, { spec: { configuration } });
    expect(changesIn(await patchbay("install", "--skip-checks"))).toEqual(new Set(["unchanged"]));
    expect((await api.get(KUBEVIRT_OBJECT)).body.spec).toEqual({ configuration });
    const output = await patchbay(
      "install",
      "--skip-checks",
      "--mode",
      "multus",
      "--no-pod-creation",
    );
    const changed = output.lines.filter((line) => !line.endsWith(": unchanged"));
    expect(changed.map((line) => line.replace(/: \{.*/, ""))).toEqual([
      "DaemonSet patchbay/net-agent: changed",
      ...["--mode=alone", "--health-port=8481", "--metrics-port=8482"].map(removed),
      ...["--cni-socket=/run/net-agent/cni.sock", "--install-plugin=/host/opt/cni/bin"].map(
        removed,
      ),
      ...["--runtime-config-dir=/etc/cni/net.d", "--own-pod=patchbay/$(K8S_POD_NAME)"].map(removed),
      ...["env[K8S_POD_NAME]", "ports[health]", "ports[metrics]"].map(removed),
      ...["/run/net-agent", "/host/opt/cni/bin", "/etc/cni/net.d"].map((path) =>
        removed(`volumeMounts[${path}]`),
      ),
      ...["volumes[socket]", "volumes[plugins]", "volumes[network-configs]"].map(
        (volume) => `  - ${volume}`,
      ),
      "  - hostNetwork: true",
      "  - dnsPolicy: ClusterFirstWithHostNet",
      ...["--mode=multus", "--health-port=8081", "--metrics-port=8082"].map(added),
      ...["ports[health]", "ports[metrics]"].map(added),
      "  + dnsPolicy: ClusterFirst",
    ]);
    const agent = JSON.stringify((await api.get(AGENT)).body);
    expect(agent).not.toContain("--cni-socket");
    expect(agent).toContain('"--mode=multus"');
    expect(agent).toContain('"/data/kubelet/pod-resources"');
    expect(agent).toContain('"r/p:1"');
  });

  test("preserves an operator's changes of services over server defaults", async () => {
    await patchbay("install", "--skip-checks");
    const container = {
      name: "net-agent",
      args: ["--mode=multus", "--health-port=8081", "--metrics-port=8082", "--tenant-bridges=br1"],
      env: [{ name: "HTTPS_PROXY", value: "http://proxy.example" }],
      resources: { limits: { memory: "2Gi" } },
    };
    const pod = { nodeSelector: { zone: "a" }, tolerations: [{ key: "gpu" }] };
    const patch = { spec: { template: { spec: { ...pod, containers: [container] } } } };
    const strategic = "application/strategic-merge-patch+json";
    await api.patch(AGENT, patch, strategic);
    const edited = (await api.get(AGENT)).body.spec;
    expect(JSON.stringify(edited)).toContain('"--tenant-bridges=br1"');
    expect(changesIn(await patchbay("install", "--skip-checks"))).toEqual(new Set(["unchanged"]));
    const output = await patchbay("install", "--skip-checks", "--image", "r/p:2");
    expect(output.lines).toContain("  + net-agent: image: r/p:2");
    const text = JSON.stringify(edited).replace('"localhost/patchbay/patchbay:dev"', '"r/p:2"');
    expect((await api.get(AGENT)).body.spec).toEqual(JSON.parse(text));
  });

  test("a dry run prints the planned changes and changes nothing", async () => {
    const { lines, exitCode } = await patchbay("install", "--dry-run");
    expect(exitCode).toBe(0);
    expect(lines.filter((line) => !line.includes("would be created"))).toEqual([]);
    expect(lines).toContain(
      "Deployment patchbay/virt-api: would be created (not checked: its namespace does not exist yet)",
    );
    expect(await kinds()).toEqual([]);
    expect(await names("/api/v1/namespaces")).not.toContain("patchbay");
  });

  test("leaves the networks of Multus unchanged, also at uninstall", async () => {
    await api.post(DEFINITIONS, MULTUS);
    const output = await patchbay("install", "--skip-checks");
    expect([...changesIn(output)].sort()).toEqual(["created", "left alone"]);
    await patchbay("uninstall");
    expect(await names(DEFINITIONS)).toEqual([MULTUS.metadata.name]);
  });

  test.each([
    ...KUBEVIRT,
    {
      what: "Namespace patchbay",
      path: "/api/v1/namespaces",
      object: { apiVersion: "v1", kind: "Namespace", metadata: { name: "patchbay" } },
    },
  ])("stops if $what exists, names it and changes nothing", async ({ what, path, object }) => {
    await api.post(path, object);
    const definitions = await names(DEFINITIONS);
    const output = await patchbay("install");
    expect(output.exitCode).toBe(4);
    expect(output.stderr).toContain(`WRONG  ${what}: is of another installation, `);
    expect(output.stderr).toContain("nothing was changed\n");
    expect(await names(DEFINITIONS)).toEqual(definitions);
    expect(await names("/apis/scheduling.k8s.io/v1/priorityclasses")).not.toContain(
      "patchbay-critical",
    );
  });
});

describe("install --only net-agent, beside KubeVirt", () => {
  const vm = {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name: "theirs" },
    spec: {},
  };

  beforeEach(async () => {
    for (const { path, object } of KUBEVIRT) await api.post(path, object);
    const metadata = { name: "virtualmachines.kubevirt.io" };
    const kind = { plural: "virtualmachines", kind: "VirtualMachine" };
    const spec = { ...MULTUS.spec, group: "kubevirt.io", names: kind };
    await api.post(DEFINITIONS, { ...MULTUS, metadata, spec });
    await api.post(VMS, vm);
  });

  /** All KubeVirt objects as stored. */
  async function theirs(): Promise<readonly unknown[]> {
    const paths = KUBEVIRT.map(({ path, object }) => `${path}/${object.metadata.name}`);
    const answers = await Promise.all([...paths, `${VMS}/theirs`].map((path) => api.get(path)));
    return answers.map(({ body }) => body);
  }

  test("creates one DaemonSet, its dependencies and the network kind; KubeVirt stays unchanged", async () => {
    const before = await theirs();
    const output = await patchbay("install", "--only", "net-agent", "--mode", "multus-dynamic");
    expect(output.exitCode).toBe(0);
    expect(output.lines).toEqual([
      "Namespace patchbay: created",
      "CustomResourceDefinition network-attachment-definitions.k8s.cni.cncf.io: created",
      "PriorityClass patchbay-critical: created",
      "ServiceAccount patchbay/net-agent: created",
      "ClusterRole patchbay:net-agent: created",
      "ClusterRole patchbay:metrics-server: created",
      "ClusterRole patchbay:metrics-reader: created",
      "ClusterRoleBinding patchbay:net-agent: created",
      "ClusterRoleBinding patchbay:net-agent-metrics: created",
      "NetworkPolicy patchbay/deny-ingress: created",
      "NetworkPolicy patchbay/metrics: created",
      "DaemonSet patchbay/net-agent: created",
    ]);
    expect(JSON.stringify((await api.get(AGENT)).body)).toContain('"--mode=multus-dynamic"');
    expect(await theirs()).toEqual(before);
  });

  test("uninstalls while VMs of KubeVirt exist and leaves them unchanged", async () => {
    const before = await theirs();
    await patchbay("install", "--only", "net-agent", "--skip-checks");
    const output = await patchbay("uninstall");
    expect(output.exitCode).toBe(0);
    expect(changesIn(output)).toEqual(new Set(["deleted"]));
    expect(await names("/api/v1/namespaces")).not.toContain("patchbay");
    expect(await theirs()).toEqual(before);
  });

  test("leaves the networks of Multus and their kind unchanged", async () => {
    await api.post(DEFINITIONS, MULTUS);
    const output = await patchbay("install", "--only", "net-agent");
    expect(output.lines).toContain(
      "CustomResourceDefinition network-attachment-definitions.k8s.cni.cncf.io: left alone",
    );
    await patchbay("uninstall");
    expect(await names(DEFINITIONS)).toContain(MULTUS.metadata.name);
  });

  test("rejects options that it does not use", async () => {
    for (const flags of [
      ["--only", "virt-api"],
      ["--only", "net-agent", "--launcher-image", "r/l:1"],
      ["--mode", "solo"],
    ]) {
      const output = await patchbay("install", ...flags);
      expect(output.exitCode).toBe(2);
      expect(await names("/api/v1/namespaces")).not.toContain("patchbay");
    }
  });
});

describe("uninstall", () => {
  async function ours(): Promise<readonly string[]> {
    const base = parseManifests(await readManifests(createFiles(), "base"));
    const remaining = await Promise.all(
      base.map(async ({ apiVersion, kind, metadata: { namespace, name } }) => {
        const group = apiVersion === "v1" ? "/api/v1" : `/apis/${apiVersion}`;
        const where = namespace === undefined ? "" : `/namespaces/${namespace}`;
        const plural = kind.endsWith("y") ? `${kind.slice(0, -1)}ies` : `${kind}s`;
        const resource = plural.replace(/sss$/, "sses").toLowerCase();
        const { code } = await api.ask("GET", `${group}${where}/${resource}/${name}`);
        return code === 404 ? [] : [`${kind} ${name} ${String(code)}`];
      }),
    );
    return remaining.flat();
  }

  test("removes the whole installation and nothing else", async () => {
    const before = await names("/apis/rbac.authorization.k8s.io/v1/clusterroles");
    await patchbay("install", "--skip-checks");
    expect(await ours()).not.toEqual([]);
    const output = await patchbayProcess("uninstall");
    expect(output.stderr).toBe("");
    expect(changesIn(output)).toEqual(new Set(["deleted"]));
    expect(await ours()).toEqual([]);
    expect(await names("/apis/rbac.authorization.k8s.io/v1/clusterroles")).toEqual(before);
    expect((await patchbay("uninstall")).exitCode).toBe(0);
  });

  test("stops while a VM exists, names it and changes nothing", async () => {
    await patchbay("install", "--skip-checks");
    await api.delete(`${WEBHOOKS}/patchbay`); // no server handles them here
    await api.delete(WEBHOOKS.replace("mutating", "validating") + "/patchbay");
    await api.post(VMS, {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachine",
      metadata: { name: "alpha" },
      spec: { running: false, template: { spec: { domain: { devices: {} } } } },
    });
    const output = await patchbay("uninstall");
    expect(output.exitCode).toBe(4);
    expect(output.stderr).toContain("nothing was changed: VirtualMachine default/alpha\n");
    expect(await kinds()).toHaveLength(12);
    await api.delete(`${VMS}/alpha`);
    expect((await patchbay("uninstall", "--with-objects")).exitCode).toBe(0);
    expect(await kinds()).toEqual([]);
  });

  test("preserves networks and their kind, also with --with-objects", async () => {
    await patchbay("install", "--skip-checks");
    await api.post(NADS, {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { name: "blue" },
      spec: { config: "{}" },
    });
    for (const flags of [[], ["--with-objects"]]) {
      const { lines } = await patchbay("uninstall", ...flags);
      expect(lines).toContain(
        `CustomResourceDefinition ${MULTUS.metadata.name}: kept, objects of it still exist: NetworkAttachmentDefinition default/blue`,
      );
      expect(await names(NADS)).toEqual(["blue"]);
    }
    await api.ask("DELETE", `${NADS}/blue`);
    await patchbay("uninstall");
    expect(await names(DEFINITIONS)).toEqual([]);
  });

  test("preserves another kind with objects unless --with-objects is given", async () => {
    await patchbay("install", "--skip-checks");
    const policies = "/apis/migrations.kubevirt.io/v1alpha1/migrationpolicies";
    const policy = { apiVersion: "migrations.kubevirt.io/v1alpha1", kind: "MigrationPolicy" };
    await api.post(policies, { ...policy, metadata: { name: "slow" }, spec: { selectors: {} } });
    const kind = "CustomResourceDefinition migrationpolicies.migrations.kubevirt.io";
    expect((await patchbay("uninstall")).lines).toContain(
      `${kind}: kept, objects of it still exist: MigrationPolicy slow; --with-objects deletes them too`,
    );
    await patchbay("uninstall", "--with-objects");
    expect(await names(DEFINITIONS)).toEqual([]);
  });
});
