// SPDX-License-Identifier: Apache-2.0
// Which processors a guest may have. Source: KubeVirt validateCPUHotplug.
import { causeIf, type Rule } from "../rule.ts";

/** More need an IOMMU with extended interrupt mode, which no guest is given. Source: libvirt QEMU_MAX_VCPUS_WITHOUT_EIM. */
const VCPUS_MAX = 255;

const notTooMany: Rule = ({ spec, base }) => {
  const { cores = 1, sockets = 1, threads = 1 } = spec.domain.cpu ?? {};
  const vcpus = cores * sockets * threads;
  const field = `${base}.domain.cpu`;
  return causeIf(vcpus > VCPUS_MAX, {
    reason: "FieldValueInvalid",
    field,
    message: `${field} gives the guest ${String(vcpus)} processors; it can have ${String(VCPUS_MAX)}`,
  });
};

const socketsFit: Rule = ({ spec, base }) => {
  const { sockets = 1, maxSockets } = spec.domain.cpu ?? {};
  return causeIf(typeof maxSockets === "number" && maxSockets > 0 && sockets > maxSockets, {
    reason: "FieldValueInvalid",
    field: `${base}.domain.cpu.sockets`,
    message: "Number of sockets in CPU topology is greater than the maximum sockets allowed",
  });
};

/** Judges the number of processors. */
export const CPU_RULES: readonly Rule[] = [notTooMany, socketsFit];
