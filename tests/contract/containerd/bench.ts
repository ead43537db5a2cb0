// SPDX-License-Identifier: Apache-2.0
// A containerd for tests in its own directory: started, killed, restarted, and removed with everything it created.
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  containerdCommand,
  ctr,
  sweepShimSocketsOnChange,
  buildLayout,
  listProcesses,
  prepareContainerd,
  removeDeadSocket,
  removeContainerdLeftovers,
  removeCgroups,
  findShims,
  unmountBelow,
  waitUntilServing,
  type ContainerdLayout,
} from "@patchbay/containerd";
import { createContainerRuntime } from "@patchbay/cri";
import { eventually } from "@patchbay/support";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import {
  createClock,
  createFiles,
  createProcessRunner,
  killAndWait,
  readBootId,
  signalProcess,
  startDetached,
  waitForProcessEnd,
  type ProcessName,
} from "@patchbay/os";

const START_MS = 20_000;
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const files = createFiles();
const runner = createProcessRunner();
const clock = createClock();

export interface BenchOptions {
  /** Reference of the sandbox image, which the test imports. */
  readonly sandboxImage?: string;
  /** CNI configuration, text of a `.conflist`; unset: only the loopback plugin, so that pods need no bridge. */
  readonly network?: string;
  /** Directory of CNI plugins; unset: Debian's. */
  readonly cniPlugins?: string;
  /** Adds images to its directories before the first start. */
  readonly fill?: (layout: ContainerdLayout) => Promise<void>;
}

export interface ContainerdBench {
  readonly directory: string;
  readonly layout: ContainerdLayout;
  /** `unix:///…` */
  readonly endpoint: string;
  /** The parent of sandboxes' control groups; removed at the end. */
  readonly cgroupParent: string;
  /** Runs `ctr` in CRI's namespace; returns its standard output. */
  ctr(...args: readonly string[]): Promise<string>;
  /** containerd's pid while it runs. */
  readonly process: ProcessName | undefined;
  /** Pids of its shims: one for each sandbox, which dies with it. */
  listShims(): Promise<readonly number[]>;
  /** Starts it unless it runs; resolves when it answers. */
  start(): Promise<void>;
  /** Sends SIGKILL or SIGTERM to containerd alone; resolves when it has ended. Containers keep running. */
  end(signal: "SIGKILL" | "SIGTERM"): Promise<void>;
  /** Ends everything and removes what it created; may be repeated. */
  close(): Promise<void>;
}

const LOOPBACK = JSON.stringify({
  cniVersion: "1.0.0",
  name: "bench",
  plugins: [{ type: "loopback" }],
});

/** CRI starts after containerd answers, and rejects calls until then. */
async function waitForCri(layout: ContainerdLayout): Promise<void> {
  const runtime = createContainerRuntime({ endpoints: [`unix://${layout.socket}`], clock });
  try {
    await eventually(() => runtime.version(), { withinMs: START_MS });
  } finally {
    runtime.close();
  }
}

async function startContainerd(layout: ContainerdLayout): Promise<ProcessName> {
  await removeDeadSocket(files, layout);
  const started = await startDetached({
    argv: containerdCommand(layout),
    env: { PATH },
    outFile: join(layout.directory, "out"),
    logFile: join(layout.directory, "log"),
  });
  const ended = new AbortController();
  void started.ended.then((reason) => {
    ended.abort(new Error(`containerd ended: ${reason}; see ${layout.directory}/log`));
  });
  try {
    await waitUntilServing({ runner, layout, clock }, START_MS, ended.signal);
    await waitForCri(layout);
    return started;
  } catch (error) {
    await endProcess(started, "SIGKILL");
    throw error;
  }
}

async function endProcess(name: ProcessName, signal: "SIGKILL" | "SIGTERM"): Promise<void> {
  await signalProcess(name, signal);
  await waitForProcessEnd(name.pid, name.startTime);
}

async function removeAll(layout: ContainerdLayout, cgroupParent: string): Promise<void> {
  const { directory } = layout;
  const bootId = await readBootId(files);
  await removeContainerdLeftovers({ files, runner, layout, kill: killAndWait, bootId });
  await unmountBelow({ files, runner }, directory);
  await removeCgroups({ files, runner }, cgroupParent);
  await files.remove(directory);
}

export async function startContainerdBench(options: BenchOptions = {}): Promise<ContainerdBench> {
  const id = randomUUID().slice(0, 8);
  const directory = join(tmpdir(), `ctrd-${id}`);
  const cniConfDirectory = join(directory, "net.d");
  const runDirectory = join(directory, "run");
  const layout = buildLayout({ directory, runDirectory, cniConfDirectory });
  const { network = LOOPBACK, sandboxImage = "localhost/patchbay/pause:dev" } = options;
  await files.ensureDirectory(cniConfDirectory);
  await files.writeAtomic(join(cniConfDirectory, "10-bench.conflist"), network);
  await prepareContainerd(
    { files, runner, layout },
    { sandboxImage, bootId: await readBootId(files) },
  );
  if (options.cniPlugins !== undefined) {
    const text = (await files.readText(layout.config)) ?? "";
    await files.writeAtomic(
      layout.config,
      text.replace(/bin_dir = ".*"/, `bin_dir = ${JSON.stringify(options.cniPlugins)}`),
    );
  }
  const cgroupParent = `/patchbay-${id}`;
  const closing = new AbortController();
  const log = createFakeLogger();
  // As the supervisor does, because killed shims leave their sockets.
  sweepShimSocketsOnChange({ files, layout, bootId: await readBootId(files), log }, closing.signal);
  let running: ProcessName | undefined;
  const bench: ContainerdBench = {
    directory,
    layout,
    endpoint: `unix://${layout.socket}`,
    cgroupParent,
    ctr: (...args) => ctr({ runner, layout }, args),
    get process() {
      return running;
    },
    listShims: async () => findShims(await listProcesses(files), layout.socket),
    start: async () => {
      running ??= await startContainerd(layout);
    },
    end: async (signal) => {
      if (running !== undefined) await endProcess(running, signal);
      running = undefined;
    },
    close: async () => {
      await bench.end("SIGTERM");
      closing.abort(new Error("the bench is closed"));
      await removeAll(layout, cgroupParent);
    },
  };
  try {
    await options.fill?.(layout);
    await bench.start();
  } catch (error) {
    closing.abort(new Error("the bench did not start"));
    await removeAll(layout, cgroupParent);
    throw error;
  }
  return bench;
}
