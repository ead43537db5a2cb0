// SPDX-License-Identifier: Apache-2.0
export {
  certifyKey,
  createAuthority,
  endOfCertificate,
  isIssuedFor,
  isKeyOf,
  issueCertificate,
  loadAuthority,
  namesAddress,
  renewAuthority,
  splitBundle,
  startOfCertificate,
  subjectOfCertificate,
} from "./certificates.ts";
export {
  type Authority,
  type CertificateRequest,
  type CertificateUsage,
  createSigningKey,
  type IssuedCertificate,
} from "./encoding.ts";
export { kubeconfigText } from "./kubeconfig.ts";
