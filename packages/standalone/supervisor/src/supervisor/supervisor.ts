// SPDX-License-Identifier: Apache-2.0
import { sweepShimSocketsOnChange } from "@patchbay/containerd";
import { messageOf, type Clock, type Logger } from "@patchbay/base";
import { createClock, createFiles, createProcessRunner, setOomScore } from "@patchbay/os";
import { createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";
import { Component, type ComponentProgram } from "./component.ts";
import { buildPrograms, type Programs } from "./components.ts";
import { createStopSignal, readArchitecture, readBuild, type ProcessArguments } from "../config.ts";
import { shutDownGuests } from "./guests.ts";
import { probeKvm, type KvmFinding } from "../runtime/kvm-probe.ts";
import { removeLeftovers, thawLeftClaims } from "../host/leftovers.ts";
import { ensureKinds, ensureKubeVirt, ensureRights, ensureVirtApi } from "../objects.ts";
import { removeMasquerade, removeServiceRules } from "../host/rules.ts";
import { buildPaths, type Paths } from "../data-dir/paths.ts";
import { lockMachine } from "./hold-machine.ts";
import { buildContainerdLayout, prepareOwnContainerd } from "../runtime/own-containerd.ts";
import { importOwnImages } from "../runtime/own-images.ts";
import { prepare, buildServerUrl, type Prepared } from "../prepare.ts";
import { readSettingsFile, type WantedSettings } from "../settings/settings.ts";
import { readNewestValidityStartMs } from "../data-dir/certificates.ts";
import { rotateMachineLogs } from "./log-rotation.ts";
import { renewDaily, type RenewalDeps } from "./renewal.ts";
import type { StateWriter } from "./state.ts";

interface SupervisorDeps {
  readonly files: Files;
  readonly clock: Clock;
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly paths: Paths;
  readonly bootId: string;
  readonly build: string;
  readonly state: StateWriter;
}

async function settleAll(tasks: readonly Promise<void>[]): Promise<void> {
  const outcomes = await Promise.allSettled(tasks);
  for (const outcome of outcomes) {
    if (outcome.status === "rejected") throw outcome.reason;
  }
}

function announceVirtApi(
  { store }: KubeClient,
  { settings, certificates }: Prepared,
): Promise<void> {
  return ensureVirtApi(store, { port: settings.virtApiPort, caPem: certificates.ca.certPem });
}

export class Supervisor {
  readonly #deps: SupervisorDeps;
  /** Components in the order in which they were started. */
  readonly #components: Component[] = [];
  readonly #endController = new AbortController();
  readonly #renewalController = new AbortController();
  #client: KubeClient | undefined;
  #imageImport: Promise<void> | undefined;

  constructor(deps: SupervisorDeps) {
    this.#deps = deps;
  }

  /** Starts the machine. On failure, stops the components that it started. @throws AppError with RUNTIME_START_FAILED */
  async start(requestedSettings: WantedSettings): Promise<void> {
    try {
      const { prepared, programs, client } = await this.#startServer(requestedSettings);
      const finding = await this.#writeObjects(client);
      await this.#startServices(programs, client, prepared);
      await this.#deps.state.addStep(finding.reason);
      void renewDaily(this.#buildRenewal(programs), this.#renewalController.signal);
    } catch (error) {
      this.#endController.abort(new Error("the machine did not start"));
      await this.#stopAll(this.#components.filter(({ isAdopted }) => !isAdopted));
      throw error;
    }
  }

  async stop(): Promise<void> {
    const { state, log } = this.#deps;
    this.#renewalController.abort(new Error("the machine stops"));
    const controller = this.#components.find(({ name }) => name === "virt-controller");
    // The controller is stopped first, because it would create new pods for running VMs.
    if (controller !== undefined) await controller.stop();
    await thawLeftClaims(this.#deps); // Guests that wait for a frozen claim cannot be killed.
    try {
      const count = this.#client === undefined ? 0 : await this.#shutDown(this.#client);
      await state.addStep(`${String(count)} pods ended, guests were shut down`);
    } catch (error) {
      log.error("guests cannot be shut down", { reason: messageOf(error), err: error });
    }
    await this.#stopAll(this.#components);
    this.#endController.abort(new Error("the machine stops"));
    await removeLeftovers(this.#deps);
    await removeMasquerade(this.#deps);
    await removeServiceRules(this.#deps);
    await state.addStep("host cleaned");
    await this.#client?.close();
  }

  /** Starts only the components that shut down guests. {@link stop} must follow. */
  async startForStop(): Promise<void> {
    const { log } = this.#deps;
    try {
      const { programs } = await this.#startServer({});
      const neededPrograms = [programs.nodeRuntime, programs.netAgent, programs.virtHandler];
      await settleAll(neededPrograms.map((program) => this.#run(program)));
    } catch (error) {
      log.error("guests cannot be shut down gracefully", { reason: messageOf(error), err: error });
    }
    // Adds the components that this process did not start or adopt, because they may run too. {@link stop} then stops them all.
    const { settings } = await prepare(this.#deps, {});
    const programs = buildPrograms(this.#deps, settings);
    const knownNames = new Set(this.#components.map(({ name }) => name));
    for (const program of Object.values<ComponentProgram>({ ...programs })) {
      if (!knownNames.has(program.name)) this.#components.push(new Component(program, this.#deps));
    }
  }

  async #startServer(
    requestedSettings: WantedSettings,
  ): Promise<{ prepared: Prepared; programs: Programs; client: KubeClient }> {
    const { state } = this.#deps;
    const prepared = await prepare(this.#deps, requestedSettings);
    await state.addStep("certificates, kubeconfigs and settings are ready");
    const { settings } = prepared;
    const programs = buildPrograms(this.#deps, settings);
    await settleAll([this.#startContainerd(programs), this.#run(programs.apiServer)]);
    const client = await this.#connect();
    await state.addStep(`API server listens at ${buildServerUrl(settings.apiPort)}`);
    await ensureRights(client.store, this.#deps.files, settings.nodeName);
    await state.addStep("accounts and roles are ready");
    return { prepared, programs, client };
  }

  async #connect(): Promise<KubeClient> {
    const { paths, log, clock } = this.#deps;
    const config = await loadKubeConfig({ kubeconfig: paths.kubeconfig });
    await this.#client?.close();
    this.#client = createKubeClient(config, { logger: log, clock, component: "standalone" });
    return this.#client;
  }

  async #startContainerd({ containerd }: Programs): Promise<void> {
    const snapshotter = await prepareOwnContainerd(this.#deps);
    await this.#deps.state.addStep(`root file systems are stored ${snapshotter}`);
    await this.#run(containerd);
    const layout = buildContainerdLayout(this.#deps.paths);
    sweepShimSocketsOnChange({ ...this.#deps, layout }, this.#endController.signal);
  }

  #importImages(): Promise<void> {
    this.#imageImport ??= importOwnImages(this.#deps, (text) => this.#deps.state.addStep(text));
    return this.#imageImport;
  }

  async #startNodeRuntime({ nodeRuntime }: Programs): Promise<void> {
    await this.#importImages();
    await this.#run(nodeRuntime);
  }

  async #writeObjects(client: KubeClient): Promise<KvmFinding> {
    const finding = await this.#probe();
    await ensureKinds(client.store);
    await ensureKubeVirt(client.store, finding.useEmulation);
    await this.#deps.state.addStep("custom resources are registered");
    return finding;
  }

  async #probe(): Promise<KvmFinding> {
    try {
      return await probeKvm({
        ...this.#deps,
        architecture: readArchitecture(),
        launcherImage: () => this.#importImages(),
      });
    } catch (error) {
      const reason = `KVM cannot be tested (${messageOf(error)}): guests are emulated in software`;
      return { useEmulation: true, reason };
    }
  }

  async #startServices(programs: Programs, client: KubeClient, prepared: Prepared): Promise<void> {
    const { virtApi, netAgent, virtHandler, virtController, serviceNet } = programs;
    await settleAll([
      this.#run(serviceNet),
      this.#startNodeRuntime(programs),
      this.#run(netAgent),
      this.#run(virtHandler),
      this.#run(virtApi).then(() => announceVirtApi(client, prepared)),
    ]);
    await this.#run(virtController);
  }

  async #run(program: ComponentProgram): Promise<void> {
    const component = new Component(program, this.#deps);
    this.#components.push(component);
    await component.start();
    const outcome = component.isAdopted ? "is already running" : "is ready";
    await this.#deps.state.addStep(`${program.name} ${outcome}`);
  }

  /** Builds the dependencies of the certificate renewal. It covers all services except containerd, which uses no certificates. */
  #buildRenewal({ containerd }: Programs): RenewalDeps {
    const { clock, log } = this.#deps;
    let prepared: Prepared | undefined;
    return {
      clock,
      log,
      renew: async () => {
        prepared = await prepare(this.#deps, {});
      },
      readNewestValidityStartMs: () => readNewestValidityStartMs(this.#deps),
      listServices: () => this.#components.filter(({ name }) => name !== containerd.name),
      announce: async () => {
        const client = await this.#connect();
        if (prepared !== undefined) await announceVirtApi(client, prepared);
      },
    };
  }

  async #shutDown(client: KubeClient): Promise<number> {
    const report = (text: string): void => {
      // Errors are ignored here, because the next awaited step fails with the same error.
      this.#deps.state.addStep(text).catch(() => undefined);
    };
    return shutDownGuests({ ...this.#deps, client, report });
  }

  async #stopAll(components: readonly Component[]): Promise<void> {
    for (const component of components.toReversed()) {
      await component.stop();
      await this.#deps.state.addStep(`${component.name} stopped`);
    }
  }
}

const KEEPALIVE_INTERVAL_MS = 24 * 3_600_000;
/** oom_score_adj of this process and its children, so that the kernel kills pods first. Source: KubeletOOMScoreAdj. */
const OOM_SCORE = -999;

/** @throws AppError with RUNTIME_START_FAILED, STANDALONE_SETTING_INVALID */
export async function supervise(
  { dataDir, settingsFile, ...settings }: Omit<ProcessArguments, "role">,
  log: Logger,
): Promise<void> {
  const signal = createStopSignal();
  const files = createFiles();
  const clock = createClock();
  const paths = buildPaths(dataDir);
  const { lock, bootId, state } = await lockMachine({ files, clock, paths });
  await state.enterPhase("starting");
  if (!(await setOomScore(OOM_SCORE)))
    log.warn("services are not protected from the kernel's OOM killer", {
      reason: "this machine does not allow lowering oom_score_adj",
    });
  const runner = createProcessRunner();
  const { build } = readBuild();
  const supervisor = new Supervisor({ files, clock, runner, log, paths, bootId, build, state });
  await thawLeftClaims({ files, runner, log, paths });
  void rotateMachineLogs({ files, clock, log, directory: paths.logs }, signal);
  try {
    await supervisor.start({ ...(await readSettingsFile(files, settingsFile)), ...settings });
  } catch (error) {
    await state.enterPhase("failed", messageOf(error));
    throw error;
  }
  await state.enterPhase("ready");
  log.info("everything is ready", { dataDir });
  // The timer keeps the event loop alive. Components do not, because they are detached.
  while (!signal.aborted) await clock.sleep(KEEPALIVE_INTERVAL_MS, signal).catch(() => undefined);
  await state.enterPhase("stopping");
  await supervisor.stop();
  await state.enterPhase("stopped");
  lock.release();
}
