// SPDX-License-Identifier: Apache-2.0
export {
  certifyKey,
  createAuthority,
  readCertificateEnd,
  isIssuedFor,
  isMatchingKey,
  issueCertificate,
  loadAuthority,
  isIssuedForAddress,
  renewAuthority,
  splitBundle,
  readCertificateStart,
  readCertificateSubject,
} from "./certificates.ts";
export {
  type Authority,
  type CertificateRequest,
  type CertificateUsage,
  createSigningKey,
  type IssuedCertificate,
} from "./encoding.ts";
export { kubeconfigText } from "./kubeconfig.ts";
