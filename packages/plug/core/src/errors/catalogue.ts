// SPDX-License-Identifier: Apache-2.0
// Every error code of the product, one table for each package that raises them.
import { API_ERRORS } from "./catalogue/api.ts";
import { APISERVER_ERRORS } from "./catalogue/apiserver.ts";
import { CNI_ERRORS } from "./catalogue/node/cni.ts";
import { CONTAINERD_ERRORS } from "./catalogue/node/containerd.ts";
import { CONTROLLER_ERRORS } from "./catalogue/controller.ts";
import { CRI_ERRORS } from "./catalogue/node/cri.ts";
import { DEVICE_ERRORS } from "./catalogue/node/device.ts";
import { DOMAIN_ERRORS } from "./catalogue/node/domain.ts";
import { HOOK_ERRORS } from "./catalogue/node/hooks.ts";
import { KUBE_ERRORS } from "./catalogue/kube.ts";
import { LIBVIRT_ERRORS } from "./catalogue/node/libvirt.ts";
import { MANIFESTS_ERRORS } from "./catalogue/manifests.ts";
import { OS_ERRORS } from "./catalogue/node/os.ts";
import { PATCHBAY_ERRORS } from "./catalogue/patchbay.ts";
import { PKI_ERRORS } from "./catalogue/pki.ts";
import { PODNET_ERRORS } from "./catalogue/node/podnet.ts";
import { RUNTIME_ERRORS } from "./catalogue/node/runtime.ts";
import { SERVICES_ERRORS } from "./catalogue/node/services.ts";
import { STANDALONE_ERRORS } from "./catalogue/standalone.ts";

/** The catalogue; `docs/reference/errors.md` is checked against it. */
export const CATALOGUE = {
  ...API_ERRORS,
  ...APISERVER_ERRORS,
  ...CNI_ERRORS,
  ...CONTAINERD_ERRORS,
  ...CONTROLLER_ERRORS,
  ...CRI_ERRORS,
  ...DEVICE_ERRORS,
  ...DOMAIN_ERRORS,
  ...HOOK_ERRORS,
  ...KUBE_ERRORS,
  ...LIBVIRT_ERRORS,
  ...MANIFESTS_ERRORS,
  ...OS_ERRORS,
  ...PATCHBAY_ERRORS,
  ...PKI_ERRORS,
  ...PODNET_ERRORS,
  ...RUNTIME_ERRORS,
  ...SERVICES_ERRORS,
  ...STANDALONE_ERRORS,
} as const;

/** A stable, documented error code. */
export type ErrorCode = keyof typeof CATALOGUE;
