// SPDX-License-Identifier: Apache-2.0
import {
  API_ERRORS,
  APISERVER_ERRORS,
  KUBE_ERRORS,
  CONTROLLER_ERRORS,
  PKI_ERRORS,
  MANIFESTS_ERRORS,
} from "./catalogue/control-plane.ts";
import { CNI_ERRORS, PODNET_ERRORS } from "./catalogue/network.ts";
import {
  CONTAINERD_ERRORS,
  CRI_ERRORS,
  RUNTIME_ERRORS,
  OS_ERRORS,
  SERVICES_ERRORS,
} from "./catalogue/node.ts";
import { DEVICE_ERRORS, HOOK_ERRORS, LIBVIRT_ERRORS, DOMAIN_ERRORS } from "./catalogue/guest.ts";
import { PATCHBAY_ERRORS, STANDALONE_ERRORS } from "./catalogue/standalone.ts";

/** Errors by code. They are documented in `docs/reference/errors.md`. */
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

export type ErrorCode = keyof typeof CATALOGUE;
