// SPDX-License-Identifier: Apache-2.0
export { createCriSandboxes } from "../sandboxes.ts";
export { FakeCriSandboxes } from "./fake-cri-sandboxes.ts";
export { describeContainerRuntimeContract } from "./contracts/container-runtime.ts";
export {
  containerConfigFor,
  removeAllSandboxes,
  sandboxConfigFor,
  type ContainerRuntimeBench,
} from "./contracts/container-runtime/bench.ts";
export { describeContainersContract } from "./contracts/container-runtime/containers.ts";
export { describeExecProgramsContract } from "./contracts/exec-programs.ts";
export { describeSandboxesContract } from "./contracts/sandboxes.ts";
export {
  createFakeContainerRuntime,
  type FakeContainerRuntime,
  type FakeRuntimeCall,
} from "./fakes/container-runtime.ts";
export { createFakeExecPrograms, type FakeExecPrograms } from "./fakes/exec-programs.ts";
export { createFakeSandboxes, type FakeSandboxes } from "./fakes/sandboxes.ts";
