// SPDX-License-Identifier: Apache-2.0
// A node's volumes on this machine's disk, with the node's own account at a real API server.
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { names, PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { KeyedMutex, SharePool } from "@patchbay/base";
import {
  createCache,
  createKubeClient,
  loadKubeConfig,
  waitForCaches,
  type KubeClient,
  type StartableCache,
} from "@patchbay/kube";
import {
  createClaimDisk,
  createClock,
  createFiles,
  createProcessRunner,
  createVhostDirectories,
  createVolumeDisk,
} from "@patchbay/os";
import { kubeconfigText } from "@patchbay/pki";
import { createClaimUses } from "../../../../packages/standalone/node-runtime/src/claims/index.ts";
import {
  PREPARATION_LIMITS,
  createPodObjects,
  createPodTokens,
  createHostDiskDirectoriesReader,
  refreshVolumes,
  prepareVolumes,
  removeVolumes,
  createTokenRequester,
  type VolumeDeps,
} from "../../../../packages/standalone/node-runtime/src/volumes/index.ts";
import { identity, QUIET, startHarness, type Harness } from "../../apiserver/harness.ts";

export const NODE = "node-1";

/** One node with one API server; pods are objects and directories, nothing runs. */
export class VolumeNode {
  readonly directory: string;
  readonly api: Harness;
  readonly client: KubeClient;
  readonly deps: VolumeDeps;
  readonly pods: StartableCache<Pod>;
  /** Verb and resource of each request of the node, for example `watch configmaps`. */
  readonly requests: string[];
  readonly #stop: AbortController;
  #current: Promise<void> = Promise.resolve();

  private constructor(
    api: Harness,
    { client, requests }: { readonly client: KubeClient; readonly requests: string[] },
    directory: string,
  ) {
    const stop = new AbortController();
    const clock = createClock();
    const files = createFiles();
    const node = { name: NODE, hostIp: "192.0.2.1", memoryBytes: 2 ** 34, cgroupParent: "/x" };
    this.directory = directory;
    this.api = api;
    this.client = client;
    this.requests = requests;
    this.#stop = stop;
    this.pods = createCache(client.reflect(PODS, { fieldSelector: `spec.nodeName=${NODE}` }), {
      logger: QUIET,
      indexes: { uid: ({ metadata }) => [metadata.uid ?? ""] },
    });
    const objects: Parameters<typeof createPodObjects>[0] = {
      clock,
      log: QUIET,
      openCache: (type, namespace) =>
        createCache(client.reflect(type, { namespace, isIdentityOnly: true }), { logger: QUIET }),
      readObject: (type, key) => client.store.find(type, key),
    };
    this.deps = {
      files,
      clock,
      log: QUIET,
      disk: createVolumeDisk({ runner: createProcessRunner() }),
      sockets: createVhostDirectories({
        runDir: join(directory, "run"),
        selinuxDir: directory,
        uid: names.LAUNCHER_UID,
      }),
      node: { ...node, podsDir: join(directory, "pods"), logDir: join(directory, "logs") },
      objects: createPodObjects(objects, stop.signal),
      tokens: createPodTokens(createTokenRequester(client), { clock, log: QUIET }),
      mutex: new KeyedMutex(),
      preparations: new SharePool(PREPARATION_LIMITS),
      images: { mount: () => Promise.resolve(), unmount: () => Promise.resolve() },
      claims: createClaimUses({
        files,
        store: client.store,
        claimsDir: join(directory, "claims"),
        disk: createClaimDisk({ runner: createProcessRunner() }),
      }),
      mayUseHostPaths: () => false,
      readHostDiskDirectories: createHostDiskDirectoriesReader(client.store),
    };
  }

  static async start(): Promise<VolumeNode> {
    const directory = mkdtempSync(join(tmpdir(), "patchbay-volumes-"));
    const api = await startHarness();
    const certificate = await identity(api.authority, `system:node:${NODE}`, ["system:nodes"]);
    const kubeconfig = join(directory, "kubeconfig");
    const access = { server: api.server.url, caPem: api.authority.certPem, ...certificate };
    await writeFile(kubeconfig, kubeconfigText({ ...access, user: "node" }), { mode: 0o600 });
    await api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
      metadata: { name: "node-pods" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "node-pods" },
      subjects: [
        { kind: "User", name: `system:node:${NODE}`, apiGroup: "rbac.authorization.k8s.io" },
      ],
    });
    await api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", {
      metadata: { name: "node-pods" },
      rules: [
        { apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"] },
        { apiGroups: ["kubevirt.io"], resources: ["kubevirts"], verbs: ["list"] },
      ],
    });
    const config = await loadKubeConfig({ kubeconfig });
    const requests: string[] = [];
    const client = createKubeClient(config, {
      logger: QUIET,
      clock: createClock(),
      onRequest: ({ verb, resource }) => {
        requests.push(`${verb} ${resource}`);
      },
    });
    const node = new VolumeNode(api, { client, requests }, directory);
    node.pods.start(node.#stop.signal);
    await waitForCaches([node.pods], node.#stop.signal);
    return node;
  }

  /** Creates a pod bound to the node. */
  async createPod(name: string, spec: Partial<Pod["spec"]>): Promise<Pod> {
    const containers = [{ name: "main", image: "i" }];
    const metadata = { name, labels: { app: "x" } };
    const { code, text } = await this.api.post("/api/v1/namespaces/default/pods", {
      apiVersion: "v1",
      kind: "Pod",
      metadata,
      spec: { containers, automountServiceAccountToken: false, nodeName: NODE, ...spec },
    });
    if (code !== 201) throw new Error(text);
    return JSON.parse(text) as Pod; // the server keeps the kind's schema
  }

  prepare(pod: Pod): ReturnType<typeof prepareVolumes> {
    return prepareVolumes(this.deps, pod);
  }

  remove(pod: Pod): Promise<void> {
    return removeVolumes(this.deps, pod.metadata.uid ?? "");
  }

  /** Starts updating volumes. */
  keepCurrent(): void {
    const from = { pods: this.pods, uidIndex: "uid" };
    this.#current = refreshVolumes(this.deps, from, this.#stop.signal);
  }

  podDirectory(pod: Pod): string {
    return join(this.directory, "pods", pod.metadata.uid ?? "");
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#current;
    await this.client.close();
    await this.api.close();
    await this.deps.disk.unmountAll(this.directory);
    await this.deps.files.remove(this.directory);
  }
}

/** Text of a file; undefined if it is missing. */
export function read(...path: readonly string[]): string | undefined {
  const file = join(...path);
  return existsSync(file) ? readFileSync(file, "utf8") : undefined;
}
