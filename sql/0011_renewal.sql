-- Renewing a lease and looking at the election are one statement for a dispatcher at rest.

-- defines dt_renew_member 9fa5504f7437
