-- dt_explain tells of rows of the inbox that name the job, or its key.

-- defines dt_explain 39a1fd5b3591
