// SPDX-License-Identifier: Apache-2.0
// A second node on a trial machine for two-node tests: a containerd, a node-runtime, a virt-handler and a net-agent
// with their own name, directories, accounts, roles and certificates. API server, virt-controller, virt-api, binder and
// host bridges are the machine's. It is not a feature of standalone.
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { addImage } from "@patchbay/supervisor";
import {
  Component,
  listDirectories,
  ensureComponentCertificates,
  importOwnImages,
  buildPaths,
  prepareOwnContainerd,
  buildPrograms,
  readSettings,
  removeLeftovers,
  buildServerUrl,
  type ComponentProgram,
  type Paths,
  type Settings,
} from "@patchbay/supervisor/testing";
import type { KubeNode } from "@patchbay/api/kubernetes";
import { parseManifests, readManifests } from "@patchbay/manifests";
import { createClock, createFiles, createProcessRunner, readBootId } from "@patchbay/os";
import { loadAuthority } from "@patchbay/pki";
import { createSilentLogger } from "@patchbay/telemetry";
import { eventually } from "../eventually.ts";
import type { Machine } from "./machine.ts";

/** Name of its directory beside the machine's; short, because socket paths are below it. */
const DIRECTORY = "n2";

/** Time for launchers' grace and the sweep of their leftovers, milliseconds. */
const ENDING_MS = 120_000;

/** The role and the binding of a node-runtime, which name its node. */
const ROLE = "patchbay:node-runtime";

const OWN = {
  files: createFiles(),
  clock: createClock(),
  runner: createProcessRunner(),
  log: createSilentLogger(),
};

type Deps = typeof OWN & { readonly paths: Paths; readonly bootId: string };

/**
 * Its own directories, beside two of the machine's: the pod network's configuration, because nodes of one host share
 * bridges, and claims, for volumes that both nodes share. Other volumes have a node affinity to the machine.
 */
async function depsOf(machine: Machine): Promise<Deps> {
  const { cniConf, claims } = buildPaths(machine.dataDir);
  const own = buildPaths(join(dirname(machine.dataDir), DIRECTORY));
  return { ...OWN, paths: { ...own, cniConf, claims }, bootId: await readBootId(OWN.files) };
}

/** The machine's binder serves all nodes. */
function withoutBinder({ argv, ...program }: ComponentProgram): ComponentProgram {
  const at = argv.indexOf("--binder-kubeconfig");
  const [first, ...rest] = argv.filter((_, index) => index !== at && index !== at + 1);
  return { ...program, argv: [first ?? "", ...rest] };
}

/** The node's components in start order. */
function partsOf(deps: Deps, settings: Settings): readonly Component[] {
  const { containerd, nodeRuntime, netAgent, virtHandler } = buildPrograms(deps, settings);
  const programs = [containerd, withoutBinder(nodeRuntime), netAgent, virtHandler];
  return programs.map((program) => new Component(program, deps));
}

async function settingsOf(machine: Machine, nodeName: string): Promise<Settings> {
  const paths = buildPaths(machine.dataDir);
  const settings = await readSettings({ files: OWN.files, paths });
  // The machine is up, so all of them exist; the port is free.
  return { ...(settings as Settings), nodeName, virtHandlerPort: 0 };
}

async function keepIdentity(deps: Deps, machine: Machine, settings: Settings): Promise<void> {
  const { pki } = buildPaths(machine.dataDir);
  const [certPem = "", keyPem = ""] = ["ca.crt", "ca.key"].map((file) =>
    readFileSync(join(pki, file), "utf8"),
  );
  await deps.files.writeAtomic(join(deps.paths.pki, "ca.crt"), certPem);
  const server = buildServerUrl(settings.apiPort);
  const { nodeName } = settings;
  const ca = loadAuthority({ certPem, keyPem }, deps.clock);
  await ensureComponentCertificates(deps, ca, { server, nodeName });
}

/** The rights of that node's runtime under their own names. */
async function rolesOf(nodeName: string): Promise<readonly object[]> {
  const objects = parseManifests(await readManifests(OWN.files, "standalone"), nodeName);
  const name = `${ROLE}:${nodeName}`;
  return objects
    .filter(({ metadata }) => metadata.name === ROLE)
    .map((object) => {
      const { roleRef } = object as { readonly roleRef?: object };
      const renamed = { ...object, metadata: { ...object.metadata, name } };
      return roleRef === undefined ? renamed : { ...renamed, roleRef: { ...roleRef, name } };
    });
}

export class SecondNode {
  readonly name: string;
  readonly dataDir: string;
  readonly #machine: Machine;
  readonly #deps: Deps;
  readonly #parts: readonly Component[];

  private constructor(machine: Machine, deps: Deps, settings: Settings) {
    this.name = settings.nodeName;
    this.dataDir = deps.paths.dataDir;
    this.#machine = machine;
    this.#deps = deps;
    this.#parts = partsOf(deps, settings);
  }

  /** Starts it beside a running machine; resolves when it is Ready. A failure leaves nothing behind. */
  static async start(
    machine: Machine,
    { name, guestImage }: { readonly name: string; readonly guestImage: string },
  ): Promise<SecondNode> {
    const deps = await depsOf(machine);
    const settings = await settingsOf(machine, name);
    const node = new SecondNode(machine, deps, settings);
    try {
      for (const [path, mode] of listDirectories(deps.paths)) {
        await deps.files.ensureDirectory(path, mode);
      }
      await keepIdentity(deps, machine, settings);
      machine.apply(...(await rolesOf(name)));
      await node.#startParts(guestImage);
    } catch (error) {
      await node.end();
      throw error;
    }
    machine.joinedBy(node.dataDir);
    return node;
  }

  async #startParts(guestImage: string): Promise<void> {
    const [containerd, ...others] = this.#parts;
    await prepareOwnContainerd(this.#deps);
    await containerd?.start();
    await importOwnImages(this.#deps, () => Promise.resolve());
    const print = (): void => undefined;
    await addImage({ dataDir: this.dataDir, name: "guest", source: guestImage, print });
    await Promise.all(others.map((one) => one.start()));
    await eventually(() => this.#isReady(), { withinMs: ENDING_MS });
  }

  #isReady(): boolean {
    const node = this.#machine.read(`/api/v1/nodes/${this.name}`) as KubeNode | undefined;
    const ready = node?.status?.conditions?.find(({ type }) => type === "Ready");
    return ready?.status === "True";
  }

  /** Ends its pods, then itself, and removes its files and API objects. May be repeated. */
  async end(): Promise<void> {
    const machine = this.#machine;
    try {
      machine.patch("node", this.name, { spec: { unschedulable: true } });
      const pods = ["pods", "-A", "--field-selector", `spec.nodeName=${this.name}`];
      machine.kubectl("delete", ...pods, `--timeout=${String(ENDING_MS)}ms`);
      const journal = join(this.#deps.paths.netAgent, "journal");
      const isEmpty = (): boolean => !existsSync(journal) || readdirSync(journal).length === 0;
      await eventually(isEmpty, { withinMs: ENDING_MS });
    } finally {
      await this.#remove();
    }
    const role = `${ROLE}:${this.name}`;
    machine.deleteIfPresent("clusterrole", role);
    machine.deleteIfPresent("clusterrolebinding", role);
    machine.deleteIfPresent("node-lease-role", role);
    machine.deleteIfPresent("node-lease-rolebinding", role);
    machine.deleteIfPresent("lease", this.name);
    machine.deleteIfPresent("node", this.name);
  }

  async #remove(): Promise<void> {
    for (const part of this.#parts.toReversed()) await part.stop();
    // CNI results of the pod network are also the machine's: they were deleted with the pods.
    await removeLeftovers({ ...this.#deps, paths: buildPaths(this.dataDir) });
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  /** Removes a killed run's node; the machine's objects are deleted with the machine. */
  static async endAbandoned(machine: Machine): Promise<void> {
    const deps = await depsOf(machine);
    if (!existsSync(deps.paths.dataDir)) return;
    const settings = await settingsOf(machine, DIRECTORY);
    await new SecondNode(machine, deps, settings).#remove();
  }
}
