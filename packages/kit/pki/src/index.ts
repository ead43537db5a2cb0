// SPDX-License-Identifier: Apache-2.0
// The public door of pki.
export { createAuthority, loadAuthority, renewAuthority } from "./authority.ts";
export {
  certifyKey,
  endOfCertificate,
  isIssuedFor,
  isKeyOf,
  issueCertificate,
  namesAddress,
  splitBundle,
  startOfCertificate,
  subjectOfCertificate,
} from "./certificate.ts";
export type {
  Authority,
  CertificateRequest,
  CertificateUsage,
  IssuedCertificate,
} from "./certificate-request.ts";
export { createSigningKey } from "./encoding.ts";
export { kubeconfigText } from "./kubeconfig.ts";
