// SPDX-License-Identifier: Apache-2.0
// The ContainerRuntime suites on a real containerd. Needs root, containerd, runc and CNI's plugins.
import {
  describeContainerRuntimeContract,
  describeContainersContract,
} from "@patchbay/cri/testing";
import { startContainerdRuntime } from "./containerd-runtime.ts";

describeContainerRuntimeContract("containerd", startContainerdRuntime);
describeContainersContract("containerd", startContainerdRuntime);
