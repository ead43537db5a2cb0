// SPDX-License-Identifier: Apache-2.0
// How does a command use the machine's containerd, whether the machine is up or not?
import { waitUntilServing, type ContainerdLayout } from "@patchbay/containerd";
import { AppError, isAppError } from "@patchbay/core";
import { createClock, createFiles, createProcessRunner } from "@patchbay/os";
import type { Files, ProcessRunner } from "@patchbay/core/ports";
import { createSilentLogger } from "@patchbay/telemetry";
import { isRoot } from "../config.ts";
import { pathsOf, type Paths } from "../data-dir/paths.ts";
import {
  containerdLayoutOf,
  containerdProgram,
  prepareOwnContainerd,
} from "../runtime/own-containerd.ts";
import { Component } from "../supervisor/component.ts";
import { holdMachine } from "../supervisor/hold-machine.ts";
import { isRecordedRunning } from "../supervisor/recorded-process.ts";

/** A machine that is on its way up starts its containerd within that time, milliseconds. */
const START_MS = 30_000;

/** A containerd that answers, and what it is asked with. */
export interface ContainerdAccess {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly layout: ContainerdLayout;
  readonly paths: Paths;
}

/** Whether the machine's containerd runs. */
export function runsContainerd(files: Files, { run }: Paths): Promise<boolean> {
  return isRecordedRunning(files, `${run}/containerd.json`);
}

/** Starts one for `use` alone; nobody brings the machine up meanwhile. */
async function withOwn<T>(
  access: ContainerdAccess,
  use: (access: ContainerdAccess) => Promise<T>,
): Promise<T> {
  const clock = createClock();
  const { lock, bootId } = await holdMachine({ ...access, clock });
  const deps = { ...access, clock, bootId, log: createSilentLogger() };
  const component = new Component(containerdProgram(deps), deps);
  try {
    await prepareOwnContainerd(deps);
    await component.start();
    return await use(access);
  } finally {
    await component.stop();
    lock.release();
  }
}

/**
 * Uses the containerd of a machine: the one that runs, else one that is started for this.
 * @throws AppError with STANDALONE_NOT_ROOT, CONTAINERD_PATH_TOO_LONG, CONTAINERD_FAILED, RUNTIME_START_FAILED
 */
export async function withContainerd<T>(
  dataDir: string,
  use: (access: ContainerdAccess) => Promise<T>,
): Promise<T> {
  if (!isRoot()) throw new AppError("STANDALONE_NOT_ROOT");
  const paths = pathsOf(dataDir);
  const layout = containerdLayoutOf(paths);
  const access = { files: createFiles(), runner: createProcessRunner(), layout, paths };
  if (!(await runsContainerd(access.files, paths))) {
    try {
      return await withOwn(access, use);
    } catch (error) {
      // A machine that is on its way up.
      if (!isAppError(error, "STANDALONE_RUNS_ALREADY")) throw error;
    }
  }
  await waitUntilServing({ ...access, clock: createClock() }, START_MS);
  return use(access);
}
