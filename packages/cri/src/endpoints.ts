// SPDX-License-Identifier: Apache-2.0
// Where a container runtime is looked for.

/** Where runtimes listen unless told otherwise: containerd, CRI-O, the containerd of k3s. The first that speaks CRI v1 is taken. */
export const DEFAULT_CRI_ENDPOINTS: readonly string[] = [
  "unix:///run/containerd/containerd.sock",
  "unix:///run/crio/crio.sock",
  "unix:///run/k3s/containerd/containerd.sock",
];
